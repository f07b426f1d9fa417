"""Which frames of a stack are the training script's own."""

import os
import re
import sys
import sysconfig
import threading
from types import FrameType
from typing import Any

_INNERMOST = 6
_MOST_FRAMES = 40
_MOST_LINES = 100
_MOST_TEXT = 200
_PATHS = sysconfig.get_paths()
# Not "data": that is the whole prefix, where scripts may lie as well (/usr/local/app).
_LIBRARIES = tuple(
    {
        os.path.realpath(_PATHS[key]) + os.sep
        for key in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")
        if key in _PATHS
    }
    | {os.path.dirname(os.__file__) + os.sep, "<frozen", "<string>"}
)
_INSTALLED = re.compile(r"/(site|dist)-packages/|/lib/python3(\.\d+)?/")
_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
# The lab's training scripts lie in this package, and are scripts like any other.
_PROGRAMS = os.path.join(_OURS, "lab", "programs") + os.sep


def is_user_code(file: str) -> bool:
    """Tell the training script's code from the standard library and installed packages.

    Example:
        >>> is_user_code("<frozen importlib._bootstrap>")
        False
    """
    if file.startswith(_PROGRAMS):
        return True
    return not (file.startswith((*_LIBRARIES, _OURS)) or _INSTALLED.search(file))


def is_ours(file: str) -> bool:
    """Tell whether a file belongs to unstuck itself."""
    return file.startswith(_OURS) and not file.startswith(_PROGRAMS)


def of_thread(ident: int) -> list[list[Any]]:
    """Return a thread's innermost frames and the user's own one: [file, line, function, user].

    Also what that one called, however far out: in a deep stack only that shows that it compiles.
    The probe's own frames are left out.
    """
    frame = sys._current_frames().get(ident)
    while frame is not None and is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    found: list[list[Any]] = []
    dropped: FrameType | None = None
    while frame is not None:
        user = is_user_code(frame.f_code.co_filename)
        if user and dropped:
            found.append(_describe(dropped, user=False))
        if len(found) < _INNERMOST or user:
            found.append(_describe(frame, user))
        else:
            dropped = frame
        if user:
            break
        frame = frame.f_back
    return found


def handled_by(ident: int) -> str:
    """Name the exception that a thread is handling, in an `except` or `finally`; empty if none.

    No code of the exception runs for this: only an argument that is plain text is quoted.
    """
    found: Any = sys._current_exceptions().get(ident)
    # Python 3.11 has (type, value, traceback) here, later versions the value alone.
    error = found[1] if isinstance(found, tuple) else found
    if error is None:
        return ""
    text = next((one for one in error.args if type(one) is str), "")
    name = type(error).__name__
    return f"{name}: {text}"[:_MOST_TEXT] if text else name


def whole_stack(ident: int) -> list[list[Any]]:
    """Return all frames of a thread but the probe's own, innermost first: [file, line]."""
    frame = sys._current_frames().get(ident)
    found: list[list[Any]] = []
    while frame is not None and len(found) < _MOST_FRAMES:
        if not is_ours(frame.f_code.co_filename):
            found.append([frame.f_code.co_filename, frame.f_lineno or 0])
        frame = frame.f_back
    return found


def of_all_threads() -> str:
    """Return the frames of all threads but this one as text, in the form of faulthandler.

    Not by faulthandler: without the GIL it reads frames that other threads take down meanwhile.
    """
    here = threading.get_ident()
    stacks = sys._current_frames()
    return "\n".join(_tell(ident, stack) for ident, stack in stacks.items() if ident != here)


def _tell(ident: int, stack: FrameType) -> str:
    lines = [f"Thread 0x{ident:016x} (most recent call first):\n"]
    frame: FrameType | None = stack
    while frame is not None and len(lines) <= _MOST_LINES:
        file, function = frame.f_code.co_filename, frame.f_code.co_name
        lines.append(f'  File "{file}", line {frame.f_lineno or 0} in {function}\n')
        frame = frame.f_back
    return "".join(lines)


def _describe(frame: FrameType, user: bool) -> list[Any]:
    return [frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name, user]
