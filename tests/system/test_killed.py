"""A pytest that is killed leaves no process, no network namespace and no folder behind."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from unstuck.lab.owner import marked

pytestmark = [pytest.mark.system, pytest.mark.namespaces]

TESTS = Path(__file__).parents[1]
JOB_ON_TWO_HOSTS = """
import time
from functools import partial
from unstuck.lab.job import node_torchrun

def test_job(start, two_hosts):
    for i in range(2):
        command = node_torchrun(two_hosts.address(0), two_hosts.address(i))
        hub = ("--hub", f"{two_hosts.address(0)}:29600")
        start(*command, "train.py", options=hub, wrap=partial(two_hosts.command, i))
    time.sleep(600)  # never waited for: this pytest is killed here
"""


class KilledPytest:
    """A pytest with a temporary folder of its own, by which everything it starts is found."""

    def __init__(self, project: Path, temporary: Path, options: tuple[str, ...]) -> None:
        # Copies, or the two would wait for each other's tests that must be alone.
        shutil.copytree(TESTS / "system", project / "tests" / "system")
        for test in project.glob("tests/system/test_*.py"):
            test.unlink()
        shutil.copy(TESTS / "conftest.py", project / "tests")
        shutil.copy(TESTS.parent / "pyproject.toml", project)
        (project / "tests" / "system" / "test_job.py").write_text(JOB_ON_TWO_HOSTS)
        # The job must still run when its owner is killed; nothing waits for its end.
        (project / "train.py").write_text("import time; time.sleep(600)")
        self._temporary = temporary
        with (project / "output").open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options],
                cwd=project,
                env={**os.environ, "TMPDIR": str(temporary)},
                stdout=output,
                stderr=output,
            )

    def pids(self) -> set[int]:
        own = str(self._temporary)
        return {pid for pid, folder in marked("TMPDIR") if folder.startswith(own)}

    def namespaces(self) -> set[str]:
        prefixes = tuple(f"unstuck-{pid}-" for pid in self.pids())
        return {name for name in namespaces() if name.startswith(prefixes)}

    def live_directories(self) -> set[Path]:
        return {link.readlink() for link in self._temporary.glob("pytest-of-*/**/run/live-*")}

    def folders(self) -> list[Path]:
        found = self._temporary.glob("pytest-of-*/pytest-[0-9]*")
        return [*found, *(each for each in self._temporary.iterdir() if "pytest" not in each.name)]


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Make a folder with a short path: sockets lie in it."""
    with tempfile.TemporaryDirectory(prefix="unstuck-killed-") as folder:
        yield Path(folder)


@pytest.mark.parametrize("options", [("-p", "no:xdist"), ("-n", "1")], ids=["itself", "worker"])
def test_nothing_is_left_of_a_pytest_that_was_killed(
    tmp_path: Path, temporary: Path, options: tuple[str, ...]
):
    killed = KilledPytest(tmp_path, temporary, options)
    try:
        wait_for(lambda: len(killed.live_directories()) == 2, "both hosts are watched")
        hosts, memory = killed.namespaces(), killed.live_directories()
        assert len(hosts) == 3, "two hosts and what joins them"
    finally:
        os.kill(killed.process.pid, signal.SIGKILL)
        killed.process.wait()

    wait_for(lambda: not killed.pids(), "no process is left")
    assert hosts.isdisjoint(namespaces())
    assert not [path for path in memory if path.exists()]
    assert killed.folders() == []


def namespaces() -> set[str]:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return set(listed.stdout.split())


def wait_for(look: Callable[[], bool], what: str, timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not look():
        assert time.monotonic() < deadline, f"not within {timeout:g} s: {what}"
        time.sleep(0.1)
