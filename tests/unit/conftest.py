"""Two ranks of a real gloo job under the probe; importing torch is dear, so tests share them."""

import socket
from collections.abc import Iterator
from typing import NoReturn

import pytest

from children import RANK, Child, rank_env
from pairs import Pair


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    live = folder / "live"
    live.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
    envs = [rank_env(live, number, 2, port) for number in range(2)]
    first, second = [Child(folder / str(n), RANK, env) for n, env in enumerate(envs)]
    try:
        first.do("1")
        job = Pair(live, (first, second), "")
        job = job._replace(phase_before=job.page(0).report["phase"])
        job.both("dist.init_process_group('gloo')")
        yield job
    finally:
        first.end()
        second.end()


@pytest.fixture(autouse=True)
def bugs_are_not_survived(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that raises is skipped in earnest; here it fails the test."""
    if "bugs_are_survived" not in request.fixturenames:
        monkeypatch.setattr("unstuck.diagnose.diagnose.note_broken", _raise)


@pytest.fixture
def bugs_are_survived() -> None:
    """Let a rule that raises be skipped, as it is in earnest."""


def _raise(rule: str, error: Exception) -> NoReturn:
    raise AssertionError(f"{rule!r} raised") from error
