"""Stacks of real processes, read from outside; and why they sometimes cannot be read."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from children import child, until
from unstuck.observe.node.process import procfs
from unstuck.observe.outside import pyspy

NOBODY = 65534
WAITS = """
import threading
def outer():
    inner()
def inner():
    secret = "not to be read"
    threading.Event().wait()
"""
COLLECTIVE = """
def all_reduce(tensor, op=None, group=None):
    import threading
    group = "filled in"
    threading.Event().wait()
"""
LOGGER = """
def wrap(func):
    def wrapper(*args, **kwargs):
        return func(*args, **kwargs)
    return wrapper
"""


def test_a_waiting_thread_is_read_without_stopping_it(tmp_path: Path) -> None:
    with child(tmp_path, WAITS) as waiting:
        waiting.tell("outer()")
        found = until(lambda: _main(waiting.pid, "inner"))

    assert found is not None
    assert [one.function for one in found.frames if one.function in ("inner", "outer")] == [
        "inner",
        "outer",
    ]
    assert "not to be read" not in repr(found)


def test_a_stopped_process_can_be_read_too(tmp_path: Path) -> None:
    with child(tmp_path, WAITS) as waiting:
        waiting.tell("outer()")
        until(lambda: _main(waiting.pid, "inner"))
        os.kill(waiting.pid, signal.SIGSTOP)
        until(lambda: (stat := procfs.stat(waiting.pid)) and stat.state == "T")

        assert _main(waiting.pid, "inner")
        stat = procfs.stat(waiting.pid)
        assert stat is not None
        assert stat.state == "T"


@pytest.mark.parametrize(("given", "group"), [("1", "default"), ("1, group=2", "given")])
def test_whether_a_group_was_given_is_read_from_the_call(
    tmp_path: Path, given: str, group: str
) -> None:
    (tmp_path / "distributed_c10d.py").write_text(COLLECTIVE)
    (tmp_path / "c10d_logger.py").write_text(LOGGER)
    prelude = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    prelude += "import distributed_c10d, c10d_logger\n"
    prelude += "call = c10d_logger.wrap(distributed_c10d.all_reduce)\n"
    with child(tmp_path / "rank", prelude) as rank:
        rank.tell(f"call({given})")
        main = until(lambda: _main(rank.pid, "all_reduce"))

    assert main is not None
    assert main.arguments["group"] == group


def test_a_process_that_has_ended_is_said_to_have(tmp_path: Path) -> None:
    with child(tmp_path) as ended:
        pid = ended.pid
    assert pyspy.take(pid).problem == "the process has ended"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_where_tracing_is_forbidden_the_command_that_would_allow_it_is_named(
    tmp_path: Path,
) -> None:
    code = (
        "import os, sys; from unstuck.observe.outside import pyspy; os.setuid(int(sys.argv[2])); "
        "found = pyspy.take(int(sys.argv[1])); "
        "print(found.problem); print(found.hint)"
    )
    with child(tmp_path, WAITS) as waiting:
        done = subprocess.run(
            [sys.executable, "-c", code, str(waiting.pid), str(NOBODY)],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )
        problem, hint = done.stdout.splitlines()

    assert problem == "its memory may not be read: ptrace is not allowed"
    assert hint == f"sudo unstuck attach {waiting.pid}"


def test_without_py_spy_the_package_that_has_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspy, "program", lambda: "")

    assert pyspy.take(1).hint == "pip install 'unstuck[stacks]'"


def _main(pid: int, function: str) -> pyspy.ThreadStack | None:
    main = pyspy.take(pid).main(pid)
    return main if main and any(one.function == function for one in main.frames) else None
