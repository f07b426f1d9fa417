"""Stacks are taken from outside: from a healthy child, a GIL holder, a stopped one."""

import os
import signal
import time
from pathlib import Path

import pytest

from children import PAGE, Child, child, rank_env, until
from unstuck.observe.node import stacks
from unstuck.observe.node.process import procfs
from unstuck.observe.probe.page import PageReader

SIGNAL = int(signal.SIGRTMIN + 5)
SLEEPER = "import ctypes\ndef read_device(n):\n    return ctypes.PyDLL(None).sleep(n)\n"
BEATS = "threading.Thread(target=beat_for_ever, daemon=True).start()\n"


def signal_for(rank: Child, timeout: float = 1.0) -> str:
    file = next(rank.script.parent.glob("*.stacks"))
    return stacks.take(lambda: os.kill(rank.pid, SIGNAL), str(file), timeout)


def ask(rank: Child) -> str:
    page = PageReader(str(next(rank.script.parent.glob("*.page"))))
    try:
        return stacks.take(page.ask, str(next(rank.script.parent.glob("*.stacks"))), timeout=20)
    finally:
        page.close()


def test_helper_thread_tells_the_stacks_of_all_threads(tmp_path: Path):
    prelude = PAGE + BEATS + "def work(over):\n    over.wait()\n"
    with child(tmp_path, prelude, rank_env(tmp_path)) as rank:
        ident = rank.do("about['main_thread']")
        rank.do("(over := threading.Event())")
        rank.do("threading.Thread(target=work, args=(over,), daemon=True).start()")
        text = until(lambda: _with(ask(rank), "in work"))
        frames = stacks.main_thread(text, ident)

        assert frames[-1].file == str(rank.script)
        assert frames[-1].function == "<module>"
        assert "for line in sys.stdin" in rank.script.read_text().splitlines()[frames[-1].line - 1]
        assert text.count("Thread 0x") == 2
        assert "beat_for_ever" not in text
        assert rank.do("1") == 1


def test_signal_tells_the_main_thread_of_one_that_holds_the_gil_in_c(tmp_path: Path):
    with child(tmp_path, PAGE + SLEEPER + BEATS, rank_env(tmp_path)) as rank:
        ident = rank.do("about['main_thread']")
        rank.tell("read_device(60)")
        until(lambda: (s := procfs.stat(rank.pid)) and s.state == "S")
        text = until(lambda: _with(signal_for(rank), "read_device"))
        frames = stacks.main_thread(text, ident)

        assert frames[0].function == "read_device"
        assert frames[-1].file == str(rank.script)


def _with(text: str, words: str) -> str:
    return text if words in text else ""


def test_only_the_new_stack_is_returned(tmp_path: Path):
    with child(tmp_path, PAGE, rank_env(tmp_path)) as rank:
        rank.do("1")
        assert signal_for(rank).count("Stack (most recent call first)") == 1
        assert signal_for(rank).count("Stack (most recent call first)") == 1


def test_stopped_process_gives_nothing_within_the_limit(tmp_path: Path):
    with child(tmp_path, PAGE, rank_env(tmp_path)) as rank:
        rank.do("1")
        os.kill(rank.pid, signal.SIGSTOP)
        began = time.monotonic()

        assert signal_for(rank, timeout=0.2) == ""
        assert time.monotonic() - began < 5


def test_nobody_waits_for_one_that_can_no_longer_answer(tmp_path: Path):
    (tmp_path / "stacks").touch()
    hopes = iter([True, True])
    found = stacks.take(lambda: None, str(tmp_path / "stacks"), 60, lambda: next(hopes, False))
    assert found == ""


def test_process_that_never_listened_cannot_be_asked(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        stacks.take(lambda: None, str(tmp_path / "missing"))


def test_frames_of_other_threads_are_left_out():
    text = (
        "Thread 0x00007f01 (most recent call first):\n"
        '  File "/a b/helper.py", line 9 in run\n'
        "\n"
        "Current thread 0x00007f02 (most recent call first):\n"
        '  File "/usr/lib/x.py", line ??? in wait\n'
        '  File "train.py", line 3 in <module>\n'
        "\n"
        "Thread 0x00007f03 (most recent call first):\n"
        '  File "other.py", line 1 in run\n'
    )
    found = [(f.file, f.line, f.function) for f in stacks.main_thread(text, 0x7F02)]

    assert found == [("/usr/lib/x.py", 0, "wait"), ("train.py", 3, "<module>")]
    assert stacks.main_thread(text, 0x7F04) == ()


CRASH = (
    "Thread 0x{other:016x} (most recent call first):\n"
    '  File "old.py", line 1 in asked_for_before\n'
    "\nFatal Python error: Aborted\n\n"
    "{first} 0x{other:016x} (most recent call first):\n"
    '  File "loader.py", line 7 in fetch\n'
    "\n{second} 0x{main:016x} (most recent call first):\n"
    '  File "train.py", line 3 in step\n'
    '  File "train.py", line 9 in <module>\n'
)


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ("Thread", "Current thread", (True, ["step", "<module>"])),
        ("Current thread", "Thread", (True, ["fetch"])),
        ("Thread", "Thread", (False, ["step", "<module>"])),
    ],
)
def test_crash_shows_the_thread_it_arose_in_or_else_the_main_one(
    first: str, second: str, found: tuple[bool, list[str]]
):
    text = CRASH.format(first=first, second=second, other=0x1F, main=0x2F)
    crash = stacks.of_crash(text, 0x2F)
    assert crash is not None
    assert crash.signal == signal.SIGABRT
    assert (crash.in_python, [frame.function for frame in crash.frames]) == found


def test_stacks_that_were_asked_for_are_no_crash():
    assert (
        stacks.of_crash('Thread 0x1f (most recent call first):\n  File "a.py", line 3 in f', 31)
        is None
    )
