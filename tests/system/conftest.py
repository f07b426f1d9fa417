"""The `job` fixture: a real job under `unstuck run`, and nothing of it left afterwards."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from expectations import PROGRAMS
from unstuck.lab.hosts import Hosts, available
from unstuck.lab.job import TORCHRUN, Job

StartJob = Callable[..., Job]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartJob]:
    """Start any command under `unstuck run`; at teardown no process of it may be left."""
    started: list[Job] = []

    def begin(*command: str, **how: Any) -> Job:
        started.append(Job(tmp_path / f"job{len(started)}", command, **how))
        return started[-1]

    yield begin
    left = {each.process.pid: _end(each) for each in started}
    assert not any(left.values()), f"jobs that had ended left processes behind: {left}"


@pytest.fixture
def job(start: StartJob) -> StartJob:
    """Start one of the programs on four ranks under `unstuck run torchrun`."""

    def begin(program: str, *torchrun: str, **how: Any) -> Job:
        return start(*TORCHRUN, *torchrun, str(PROGRAMS / f"{program}.py"), **how)

    return begin


@pytest.fixture
def two_hosts() -> Iterator[Hosts]:
    """Make two hosts joined by a bridge; skip the test where that is not possible."""
    reason = available()
    if reason:
        pytest.skip(reason)
    with Hosts(2) as hosts:
        yield hosts


@pytest.fixture
def free_port() -> int:
    """Give a port of the loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _end(job: Job) -> set[int]:
    ended = job.process.poll() is not None
    left = job.wait_gone(5) if ended else set[int]()
    job.kill()
    return left
