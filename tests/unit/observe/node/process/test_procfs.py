"""/proc is read right for living, odd, ended and missing processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from children import child, until
from unstuck.observe.node.process import procfs

NOBODY = 1 << 22  # above the kernel's largest pid
RENAME = "import ctypes; ctypes.CDLL(None).prctl(15, b'a) R (b', 0, 0, 0)\n"


def test_this_process():
    found = procfs.stat(os.getpid())

    assert found is not None
    assert (found.state, found.parent) == ("R", os.getppid())
    assert found.rss > 1 << 20
    assert procfs.exit_code(os.getpid()) is None


def test_cpu_time_is_that_of_the_main_thread(tmp_path: Path):
    spin = "t = time.thread_time() + 0.5\nwhile time.thread_time() < t: pass\n"
    other = "w = threading.Thread(target=sum, args=(range(1 << 24),)); w.start(); w.join()\n"
    with child(tmp_path, "import threading, time\n" + spin + other) as busy:
        busy.do("1")
        alone = float(busy.do("__import__('time').thread_time()"))

        assert procfs.thread_cpu(busy.pid) == pytest.approx(alone, abs=0.1)


def test_command_name_with_brackets_and_blanks(tmp_path: Path):
    with child(tmp_path, RENAME) as odd:
        odd.do("1")
        assert "a) R (b" in Path(f"/proc/{odd.pid}/comm").read_text()
        found = procfs.stat(odd.pid)

        assert found is not None
        assert found.parent == os.getpid()
        until(lambda: (s := procfs.stat(odd.pid)) and s.state == "S")


def test_process_that_is_not_there():
    assert procfs.stat(NOBODY) is None
    assert procfs.exit_code(NOBODY) is None
    assert (procfs.thread_cpu(NOBODY), procfs.waits_in(NOBODY)) == (0.0, "")
    assert procfs.environ(NOBODY) == {}


@pytest.mark.parametrize(
    ("end", "code"),
    [("raise SystemExit(3)", 3), ("pass", 0), ("import os; os.kill(os.getpid(), 9)", -9)],
)
def test_exit_code_can_be_read_until_the_process_is_reaped(end: str, code: int):
    ended = subprocess.Popen([sys.executable, "-c", end])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)

    assert procfs.exit_code(ended.pid) == code
    ended.wait()
    assert procfs.exit_code(ended.pid) is None


def test_stopped_process(tmp_path: Path):
    with child(tmp_path) as stopped:
        stopped.do("1")
        os.kill(stopped.pid, signal.SIGSTOP)
        until(lambda: (s := procfs.stat(stopped.pid)) and s.state == "T")


def test_kernel_function_of_a_sleeper(tmp_path: Path):
    with child(tmp_path) as sleeper:
        sleeper.do("__import__('time')")
        sleeper.tell("__import__('time').sleep(60)")
        until(lambda: "nanosleep" in procfs.waits_in(sleeper.pid))


def test_environment_is_that_of_the_start(tmp_path: Path):
    env = {**os.environ, "UNDER_TEST": "a=b=c"}
    with child(tmp_path, env=env) as asked:
        asked.do("__import__('os').environ.update(UNDER_TEST='later')")
        assert procfs.environ(asked.pid)["UNDER_TEST"] == "a=b=c"


def test_signal_that_a_process_handles_now(tmp_path: Path):
    number = signal.SIGRTMIN + 5
    with child(tmp_path, "import signal\n") as asked:
        asked.do("signal.signal(signal.SIGRTMIN + 5, lambda *_: None) and None")
        assert procfs.catches(asked.pid, number)
        assert not procfs.catches(asked.pid, number + 1)
        asked.do("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN + 5]) and None")
        assert not procfs.catches(asked.pid, number)
        asked.do("signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGRTMIN + 5]) and None")
        assert procfs.catches(asked.pid, number)
        asked.do("signal.signal(signal.SIGRTMIN + 5, signal.SIG_IGN) and None")
        assert not procfs.catches(asked.pid, number)
    assert not procfs.catches(NOBODY, number)
    assert not procfs.catches(os.getpid(), 0)
