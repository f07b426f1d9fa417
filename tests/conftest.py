"""What all tests share: what the machine must be able to do, and how torchrun jobs are spread."""

import os
import shutil
import subprocess
from collections.abc import Generator
from functools import cache
from importlib.util import find_spec
from typing import Any

import pytest

CI = os.environ.get("CI") == "true"
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
    """Let one worker run all torchrun jobs, one after the other: they would slow each other."""
    if not SYSTEM_SERIAL:
        return None
    # Not `--dist loadgroup`: with pytest 9.2 it ignores its groups without a word
    # (pytest-xdist issue 1386).
    from xdist.scheduler import LoadScopeScheduling

    class SystemTestsTogether(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "system" if nodeid.startswith("tests/system/") else nodeid

    return SystemTestsTogether(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what the machine cannot run."""
    if reason := why_not_here(item):
        pytest.skip(reason)


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
