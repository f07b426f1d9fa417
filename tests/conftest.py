"""What all tests share: what the machine must be able to do, in which order they run, and that
nothing is left of them, even if pytest is killed."""

import fcntl
import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings

from unstuck.lab import keeper, owner
from unstuck.lab.job import temporary_files_in

# How long an example takes says more about the machine's other work than about the code.
settings.register_profile("unstuck", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=20)
settings.load_profile("unstuck")

# torch looks up the name of every peer; a name server that answers late shall cost a second, not 5.
os.environ.setdefault("RES_OPTIONS", "timeout:1 attempts:1")
# Unbuffered, a print of a rank is several writes, and the lines of two ranks get mixed.
os.environ.pop("PYTHONUNBUFFERED", None)
TESTS = Path(__file__).parent
CI = os.environ.get("CI") == "true"
SYSTEM = "tests/system/"
# What takes longest comes first, so that no worker is left alone with it at the end.
LONGEST = (
    "test_exclusion.py", "test_partitions.py", "test_resilient.py", "test_slow.py",
    "test_recovery.py", "test_callbacks.py", "test_lab.py",
)  # fmt: skip
# One worker runs all tests of these: they share a running job, or sweep up what others left behind.
SHARED = ("tests/system/test_partitions.py", "tests/unit/lab/test_sweep.py")


def pytest_configure(config: pytest.Config) -> None:
    """Give whatever the tests start this process's tag, a temporary folder, and a keeper."""
    os.environ[owner.MARKER] = f"{owner.tag()}-tests"
    keeper.start()
    if config.getoption("numprocesses", None):
        return  # this process runs no tests: each of its workers comes here itself
    folder = owner.workplace()
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.environ.update(temporary_files_in(folder))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have the temporary folders of a killed run removed; one that ends keeps the last three."""
    if not hasattr(session.config, "workerinput"):
        keeper.remove_if_killed(vars(session.config)["_tmp_path_factory"].getbasetemp())


@cache
def starts_processes(module: ModuleType) -> bool:
    """Tell whether a test module, or a helper that it imports something from, starts processes."""
    return any(
        value in (subprocess, multiprocessing)
        or ((helper := _helper(value)) not in (None, module) and starts_processes(helper))
        for value in vars(module).values()
        if callable(value) or isinstance(value, ModuleType)
    )


def _helper(value: object) -> ModuleType | None:
    """Return the module among the tests' helpers that something is from."""
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    module = sys.modules.get(name or "")
    file = getattr(module, "__file__", None)
    return module if file and Path(file).is_relative_to(TESTS) else None


def modules_of(item: pytest.Function) -> Iterator[ModuleType]:
    """Return the modules of a test and of the fixtures that it uses."""
    if item.module is not None:
        yield item.module
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        for definition in definitions:
            if module := _helper(definition.func):
                yield module


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts processes, and put what must be alone at the end."""
    for item in items:
        if isinstance(item, pytest.Function) and any(map(starts_processes, modules_of(item))):
            item.add_marker("processes")
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> tuple[bool, int]:
    place = LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST)
    return item.get_closest_marker("alone") is not None, place


@cache
def why_no_namespaces() -> str:
    """Return why network namespaces cannot be made here; empty when they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "the command ip is missing (Debian: iproute2)"
    name = f"unstuck-{os.getpid()}-0-try"
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
    """Let one worker begin with the unit tests and the others with the torchrun jobs."""
    # Not `--dist loadgroup`: with pytest 9.2 it ignores its groups without a word
    # (pytest-xdist issue 1386).
    from xdist.scheduler import LoadScopeScheduling

    class JobsBesideUnits(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return file if file in SHARED else nodeid

        def _assign_work_unit(self, node: Any) -> None:
            wants_system = node is not self.nodes[0]
            for scope in self.workqueue:
                if scope.startswith(SYSTEM) == wants_system:
                    self.workqueue.move_to_end(scope, last=False)
                    break
            super()._assign_work_unit(node)

    config.option.loadscopereorder = False
    return JobsBesideUnits(config, log)


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
