"""The process beside ranks that called `unstuck.watch()`: it lives as long as they do."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from children import PAGE, Child, child, rank_env, write_page
from clocks import FakeClock
from unstuck.launch import beside
from unstuck.launch.beside import Beside, describe

ENDED = 1 << 22
"""No process has this pid."""


class Watchers:
    def __init__(self, clock: FakeClock, most: float) -> None:
        self.clock, self.most = clock, most
        self.sent: list[str] = []

    def start(self) -> None:
        self.began = self.clock.monotonic()

    def check(self) -> None:
        assert self.clock.monotonic() - self.began < self.most, "it does not end"

    def finish(self) -> None:
        self.lasted = self.clock.monotonic() - self.began

    def send(self, *words: object) -> None:
        self.sent.append(" ".join(map(str, words)))


@pytest.fixture(autouse=True)
def keep_handlers() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def lasts(live: Path, most: float = 100.0) -> float:
    """Return for how many seconds it watches the ranks of a directory."""
    clock = FakeClock()
    watchers = Watchers(clock, most)
    Beside(live, cast("Any", watchers), clock).run()
    return watchers.lasted


def test_ranks_have_a_minute_to_start(tmp_path: Path):
    assert 60 < lasts(tmp_path) < 75


def test_ranks_that_left_in_order_end_it_at_once(tmp_path: Path):
    write_page(tmp_path, 0, ENDED, phase="exit")
    clock = FakeClock()
    process = Beside(tmp_path, cast("Any", Watchers(clock, 1)), clock)
    process._seen = clock.monotonic()
    assert process._goes_on(clock.monotonic())
    assert not process._goes_on(clock.monotonic() + 1.0)


def test_ranks_that_died_may_be_restarted(tmp_path: Path):
    write_page(tmp_path, 0, ENDED, phase="run")
    clock = FakeClock()
    process = Beside(tmp_path, cast("Any", Watchers(clock, 1)), clock)
    process._seen = clock.monotonic()
    assert process._goes_on(clock.monotonic() + 9.0)
    assert not process._goes_on(clock.monotonic() + 11.0)


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[Child]:
    with child(tmp_path / "child", PAGE, rank_env(tmp_path)) as started:
        started.do("1")
        yield started


def test_rank_that_lives_is_watched_however_long_it_takes(rank: Child, tmp_path: Path):
    with pytest.raises(AssertionError, match="it does not end"):
        lasts(tmp_path, most=1000.0)


def test_end_of_the_job_makes_deaths_expected(tmp_path: Path):
    watchers = Watchers(FakeClock(), 1)
    Beside(tmp_path, cast("Any", watchers))._stop(signal.SIGTERM, None)
    assert watchers.sent == ["stopping"]


def test_pages_of_dead_ranks_are_removed_and_those_of_living_ones_stay(rank: Child, tmp_path: Path):
    write_page(tmp_path, 1, ENDED, phase="run")
    beside._clear(tmp_path, everything=True)
    assert {path.name.split(".")[1] for path in tmp_path.glob("rank-*.page")} == {str(rank.pid)}


@pytest.mark.parametrize(
    ("env", "several"),
    [
        ({"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}, False),
        ({"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}, True),
        ({"WORLD_SIZE": "8", "SLURM_NNODES": "2"}, True),
        ({"WORLD_SIZE": "8"}, False),
    ],
)
def test_environment_of_a_rank_says_whether_there_are_more_nodes(
    env: dict[str, str], several: bool
):
    command = describe("/home/me/train.py", {"MASTER_ADDR": "node0", **env})
    assert (command.name, command.master, command.several_nodes) == ("train", "node0", several)
