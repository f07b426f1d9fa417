"""What all tests share: what the machine must be able to do, and how torchrun jobs are spread."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Generator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# How long an example takes says more about the machine's other work than about the code.
settings.register_profile("unstuck", deadline=None)
settings.load_profile("unstuck")

# torch looks up the name of every peer; a name server that answers late shall cost a second, not 5.
os.environ.setdefault("RES_OPTIONS", "timeout:1 attempts:1")
# Unbuffered, a print of a rank is several writes, and the lines of two ranks get mixed.
os.environ.pop("PYTHONUNBUFFERED", None)
TESTS = Path(__file__).parent
CI = os.environ.get("CI") == "true"
# About half of the time that torchrun jobs take; what needs hosts or a quiet core is in the other.
ONE_HOST = (
    "hangs.py", "healthy.py", "restarts.py", "passthrough.py", "bad_input.py", "recovery.py"
)  # fmt: skip
SYSTEM_SERIAL = os.environ.get("UNSTUCK_SYSTEM_SERIAL", "1") != "0"


@cache
def why_no_namespaces() -> str:
    """Return why network namespaces cannot be made here; empty when they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "the command ip is missing (Debian: iproute2)"
    name = f"unstuck-try-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"ip netns add fails: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", name], check=True)
    return ""


def why_not_here(item: pytest.Item) -> str:
    """Return why this machine cannot run a test; empty when it can."""
    if item.get_closest_marker("system") and find_spec("torch") is None:
        return "torch is not installed"
    if item.get_closest_marker("namespaces"):
        return why_no_namespaces()
    return ""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let two workers run all torchrun jobs: more at a time would slow each other."""
    if not SYSTEM_SERIAL:
        return None
    # Not `--dist loadgroup`: with pytest 9.2 it ignores its groups without a word
    # (pytest-xdist issue 1386).
    from xdist.scheduler import LoadScopeScheduling

    class SystemTestsTogether(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if not nodeid.startswith("tests/system/"):
                return nodeid
            file = nodeid.partition("::")[0]
            return "system, one host" if file.endswith(ONE_HOST) else "system"

    return SystemTestsTogether(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what the machine cannot run."""
    if reason := why_not_here(item):
        pytest.skip(reason)


# Around pytest-timeout's wrapper: waiting for the machine is not the test's time.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let a test marked `alone` run while none of the other workers' does."""
    how = fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH
    gate, machine = os.open(TESTS, os.O_RDONLY), os.open(__file__, os.O_RDONLY)
    # Whoever waits to be alone keeps the gate shut, or the others would go on without end.
    fcntl.flock(gate, fcntl.LOCK_EX)
    fcntl.flock(machine, how)
    os.close(gate)
    try:
        return (yield)
    finally:
        # Not left to the closing: a process that a test forked may have the file open too.
        fcntl.flock(machine, fcntl.LOCK_UN)
        os.close(machine)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure under CI: what was not run there was not tested."""
    report = yield
    if CI and report.skipped and not hasattr(report, "wasxfail"):
        fail(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Do the same for a module that skips itself, as importorskip does."""
    report = yield
    if CI and report.skipped:
        fail(report)
    return report


def fail(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Make a skip's report one of a failure that gives the skip's reason."""
    where = report.longrepr
    reason = where[2] if isinstance(where, tuple) else str(where)
    report.outcome = "failed"
    report.longrepr = f"under CI=true a skip is a failure: {reason}"
