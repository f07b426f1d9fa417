"""Stacks of a rank, asked for from outside; no ptrace is needed.

While Python code runs there, the probe's helper thread writes down all threads. Where none runs
(the GIL is stuck), faulthandler answers a signal with the main thread. Not otherwise: it reads
frames while they change, which ended 1 of 50,000 processes that did nothing but call functions
(the frames of other threads: 1 of 4,000). A process that did not say on its page that it listens
is never signalled.
"""

import os
import re
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from unstuck.model.rank import CodeLine

_THREAD = re.compile(r"^(?:Current thread 0x|Thread 0x|Stack \(most)([0-9a-f]*)")
"""The last one is the main thread's alone."""
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


def take(
    ask: Callable[[], object],
    file: str,
    timeout: float = 1.0,
    patient: Callable[[], bool] = lambda: True,
) -> str:
    """Ask for the stacks and return the text; empty when none arrived in time.

    `patient` is asked again and again whether one that has not begun to answer still may.
    """
    before = os.path.getsize(file)
    ask()
    deadline = time.monotonic() + timeout
    size, seen = before, before
    while time.monotonic() < deadline and (size > before or patient()):
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
    return _thread(text, lambda head: not head[1] or int(head[1], 16) == ident)


def other_threads(text: str, ident: int) -> tuple[tuple[CodeLine, ...], ...]:
    """Return the frames of all threads but the main one."""
    heads = [found for line in text.splitlines() if (found := _THREAD.match(line))]
    others = [head[1] for head in heads if head[1] and int(head[1], 16) != ident]
    return tuple(_thread(text, lambda head, one=one: head[1] == one) for one in others)


class Crash(NamedTuple):
    """What a process wrote about the fatal signal that ended it."""

    signal: int
    """0 where it is not a known one."""
    in_python: bool
    """It arose in a thread that runs Python code, whose frames these are; else the main thread's.
    """
    frames: tuple[CodeLine, ...]


def of_crash(text: str, ident: int) -> Crash | None:
    """Find what was written last about a crash; `ident` is the main thread. None without one."""
    _, crash, report = text.rpartition(_CRASH)
    if not crash:
        return None
    number = next((n for words, n in _SIGNALS.items() if report.startswith(words)), 0)
    frames = _thread(report, lambda head: head[0].startswith("Current"))
    return Crash(number, bool(frames), frames or main_thread(report, ident))


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
