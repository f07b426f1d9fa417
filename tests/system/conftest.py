"""The `job` fixture: a real job under `unstuck run`, and nothing of it left afterwards."""

import contextlib
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from expectations import PROGRAMS
from jobs import StartJob, jobs_in
from unstuck.lab.hosts import Hosts, available
from unstuck.lab.job import LAUNCHER, Job


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartJob]:
    """Start jobs for one test."""
    with jobs_in(tmp_path) as begin:
        yield begin


@pytest.fixture
def job(start: StartJob) -> StartJob:
    """Start one of the programs under `unstuck run torchrun`, on four ranks by default."""

    def begin(program: str, *torchrun: str, ranks: int = 4, **how: Any) -> Job:
        size = ("--nproc-per-node", str(ranks))
        return start(*LAUNCHER, "--standalone", *size, *torchrun,
                     str(PROGRAMS / f"{program}.py"), **how)  # fmt: skip

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
    """Give a port of the loopback that nobody listens on, nor on the next one.

    Below those that the kernel gives to connections: a test beside this one may make some.
    """
    for port in random.sample(range(20_000, 28_000), 50):
        with (
            contextlib.suppress(OSError),
            socket.create_server(("127.0.0.1", port)),
            socket.create_server(("127.0.0.1", port + 1)),
        ):
            return port
    raise AssertionError("no port is free")
