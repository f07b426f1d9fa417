"""The loops of the script that a stack is in: who has left the training loop, who is in it."""

import ast
import os
from collections.abc import Iterable
from functools import lru_cache

from unstuck.model.rank import CodeLine

_MOST_BYTES = 2_000_000
_STANDARD = os.path.dirname(os.__file__) + os.sep
_Loop = ast.For | ast.While | ast.AsyncFor
_MOST_CALLS = 20


def loops_around(frames: Iterable[tuple[str, int]]) -> tuple[str, ...] | None:
    """Name the loops around (file, line) pairs given innermost first; None if no source is there.

    PyTorch's own loops and those of the standard library say nothing about the training.

    Example:
        >>> loops_around([("missing.py", 3)]) is None
        True
    """
    known = False
    found: list[str] = []
    for file, line in reversed(list(frames)):
        if not _is_script(file):
            continue
        spans = _spans(file, _changed(file))
        if spans is None:
            continue
        known = True
        name = os.path.basename(file)
        found += [f"{name}:{first}" for first, last in spans if first <= line <= last]
    return tuple(found) if known else None


def route_to(frames: Iterable[CodeLine]) -> tuple[CodeLine, ...]:
    """Keep the calls of the script and its packages, given innermost first: outermost first."""
    calls = [frame for frame in reversed(list(frames)) if _is_script(frame.file)]
    return tuple(calls[:_MOST_CALLS])


def _is_script(file: str) -> bool:
    return "/torch/" not in file and (not file.startswith(_STANDARD) or "-packages/" in file)


def _changed(file: str) -> float:
    try:
        return os.stat(file).st_mtime
    except OSError:
        return 0.0


@lru_cache(maxsize=64)
def _spans(file: str, _changed: float) -> tuple[tuple[int, int], ...] | None:
    """Return first and last line of every loop, outer ones before those inside them."""
    try:
        if os.path.getsize(file) > _MOST_BYTES:
            return None
        with open(file, errors="replace") as source:
            tree = ast.parse(source.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
    loops = [node for node in ast.walk(tree) if isinstance(node, _Loop)]
    # What follows `else:` runs after the loop.
    spans = [(node.lineno, node.body[-1].end_lineno or node.lineno) for node in loops]
    return tuple(sorted(spans, key=lambda span: (span[0], -span[1])))
