"""The helper thread: it writes at once and goes on, whatever fails inside it."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from children import until
from unstuck.observe.probe.beat import Beat
from unstuck.observe.probe.calls.p2p import PointToPointLog
from unstuck.observe.probe.groups import Status
from unstuck.observe.probe.page import PageReader, PageWriter


class Flaky:
    """Groups of a torch whose recorder fails on demand."""

    def __init__(self) -> None:
        self.enqueued = {"0": 3}
        self.members = {"0": {"ranks": [0]}}
        self.fails = False
        self.fresh = True

    def look(self) -> bool:
        fresh, self.fresh = self.fresh, False
        return fresh

    def last_operations(self) -> list[dict[str, object]]:
        if self.fails:
            raise RuntimeError("no recorder today")
        return [{"collective_seq_id": 3}]

    def status(self) -> Status:
        if self.fails:
            raise RuntimeError("no recorder today")
        return {"0": (3, 3)}

    def unrecorded(self) -> dict[str, object]:
        return {}


@pytest.fixture
def groups() -> Flaky:
    return Flaky()


@pytest.fixture
def beat(tmp_path: Path, groups: Flaky) -> Iterator[Beat]:
    page = PageWriter(str(tmp_path / "p.page"))
    made = Beat(page, str(tmp_path / "p"), groups, PointToPointLog(), {"rank": 0})  # type: ignore[arg-type]
    yield made
    if made._thread.is_alive():
        made.stop()


@pytest.fixture
def page(beat: Beat, tmp_path: Path) -> Iterator[PageReader]:
    reader = PageReader(str(tmp_path / "p.page"))
    yield reader
    reader.close()


def test_first_report_is_there_at_once(beat: Beat, page: PageReader, tmp_path: Path):
    beat.start()
    found = page.read()

    assert found.beat == 1
    assert found.report["groups"] == {"0": 3}
    assert (found.report["phase"], found.report["rank"]) == ("start", 0)
    assert found.report["frames"][-1][2] == "test_first_report_is_there_at_once"
    assert (tmp_path / "p.groups").read_text() == '{"0": {"ranks": [0]}}'


def test_stacks_are_written_once_for_each_question(beat: Beat, page: PageReader, tmp_path: Path):
    file = tmp_path / "p.stacks"
    with file.open("w") as stacks:
        beat.stacks = stacks.fileno()
        beat.start()
        for times in (1, 2):
            page.ask()
            until(lambda times=times: file.read_text().count("in test_stacks_are") == times)
            seen = page.read().beat
            until(lambda seen=seen: page.read().beat > seen + 1)
            assert file.read_text().count("in test_stacks_are") == times
        beat.stop()


def test_thread_is_gone_after_the_stop(beat: Beat, page: PageReader):
    beat.start()
    until(lambda: page.read().beat > 2)
    beat.stop()

    assert "unstuck" not in [thread.name for thread in threading.enumerate()]


def test_failing_part_is_named_and_the_beat_goes_on(beat: Beat, page: PageReader, groups: Flaky):
    groups.fails = True
    beat.look()
    beat.look()
    found = page.read()

    assert found.report["problem"] == "RuntimeError: no recorder today"
    assert found.report["rank"] == 0
    assert found.beat == 2


def test_problem_that_has_passed_is_forgotten(beat: Beat, page: PageReader, groups: Flaky):
    groups.fails = True
    beat.look()
    groups.fails = False
    beat.look()

    assert page.read().report["problem"] == ""
    assert page.read().report["status"] == {"0": [3, 3]}


def test_problem_of_the_start_stays(beat: Beat, page: PageReader, groups: Flaky):
    beat.problem = "ImportError: x"
    beat.look()
    assert page.read().report["problem"] == "ImportError: x"


def test_report_that_does_not_fit_is_a_problem(beat: Beat, page: PageReader, groups: Flaky):
    groups.enqueued = {f"group {n}": n for n in range(5000)}
    beat.look()

    assert "more than the page holds" in page.read().report["problem"]
    assert page.read().beat == 1


@pytest.mark.parametrize("fails", [False, True])
def test_failing_rank_writes_down_what_it_was_in(
    beat: Beat, page: PageReader, groups: Flaky, tmp_path: Path, fails: bool
):
    beat.look()
    assert not (tmp_path / "p.last").exists()
    groups.fails = fails
    beat.ending.failure = {"type": "ValueError"}
    beat.look()
    assert (tmp_path / "p.last").exists() is not fails
