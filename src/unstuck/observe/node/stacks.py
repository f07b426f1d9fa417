"""Stacks of all threads of a rank, taken from outside by a signal that faulthandler answers.

It takes about a millisecond, needs no ptrace and works while the GIL is stuck. A process
that did not say on its page that it listens is never signalled.
"""

import os
import re
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from unstuck.model.rank import CodeLine

_THREAD = re.compile(r"^(?:Current thread|Thread) 0x([0-9a-f]+)")
_CRASH = "Fatal Python error: "
_SIGNALS = {
    "Segmentation fault": signal.SIGSEGV,
    "Aborted": signal.SIGABRT,
    "Bus error": signal.SIGBUS,
    "Floating": signal.SIGFPE,
    "Illegal instruction": signal.SIGILL,
}
"""As faulthandler begins to name them; the words vary a little between versions of Python."""
_FRAME = re.compile(r'^  File "(.*)", line (\d+|\?\?\?) in (.*)$')


def take(pid: int, signal_number: int, file: str, timeout: float = 1.0) -> str:
    """Ask the process for its stacks and return the text; empty when none came in time."""
    before = os.path.getsize(file)
    os.kill(pid, signal_number)
    deadline = time.monotonic() + timeout
    size, seen = before, before
    while time.monotonic() < deadline:
        time.sleep(0.01)
        size = os.path.getsize(file)
        if size > before and size == seen:
            break
        seen = size
    with open(file, errors="replace") as text:
        text.seek(before)
        return text.read()


def main_thread(text: str, ident: int) -> tuple[CodeLine, ...]:
    r"""Pick the main thread's frames out of faulthandler's text, innermost first.

    Example:
        >>> main_thread('Thread 0x1f (most recent call first):\n  File "a.py", line 3 in f', 0x1F)
        (CodeLine(file='a.py', line=3, function='f', text='', user=False),)
    """
    return _thread(text, lambda head: int(head[1], 16) == ident)


class Crash(NamedTuple):
    """What a process wrote about the fatal signal that ended it."""

    signal: int
    """0 where it is none that is known."""
    in_python: bool
    """It arose in a thread that runs Python code, whose frames these are; else the main thread's.
    """
    frames: tuple[CodeLine, ...]


def of_crash(text: str, ident: int) -> Crash | None:
    """Find what was written last about a crash; `ident` is the main thread. None without one."""
    _, crash, told = text.rpartition(_CRASH)
    if not crash:
        return None
    number = next((n for words, n in _SIGNALS.items() if told.startswith(words)), 0)
    frames = _thread(told, lambda head: head[0].startswith("Current"))
    return Crash(number, bool(frames), frames or main_thread(told, ident))


def _thread(text: str, is_wanted: Callable[[re.Match[str]], bool]) -> tuple[CodeLine, ...]:
    frames: list[CodeLine] = []
    inside = False
    for line in text.splitlines():
        if found := _THREAD.match(line):
            if inside:
                break
            inside = is_wanted(found)
        elif inside and (found := _FRAME.match(line)):
            number = int(found[2]) if found[2].isdigit() else 0
            frames.append(CodeLine(file=found[1], line=number, function=found[3]))
    return tuple(frames)
