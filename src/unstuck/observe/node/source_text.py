"""The text of a source line, so that a verdict can show the code and not only its place."""

import os
import stat
from collections.abc import Iterable
from functools import lru_cache

from unstuck.model.rank import CodeLine
from unstuck.observe.probe.frames import is_ours, is_user_code

_FRAMES = 8
_MOST_BYTES = 2_000_000
_MOST_CHARACTERS = 160


def line(file: str, number: int) -> str:
    """Return one stripped source line; empty when the file cannot be read here."""
    lines = _lines(file)
    return lines[number - 1].strip()[:_MOST_CHARACTERS] if 0 < number <= len(lines) else ""


@lru_cache(maxsize=64)
def _lines(file: str) -> list[str]:
    try:
        found = os.stat(file)
        # A script may be read from a pipe, as /dev/stdin: to open that one here would wait.
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
            return []
        with open(file, errors="replace") as text:
            return text.read().splitlines()
    except OSError:
        return []


def with_source(frames: tuple[CodeLine, ...]) -> tuple[CodeLine, ...]:
    """Keep the innermost frames and the user's own one, with their source lines.

    Also what that one called, however far out (the outermost frame, where the stack was cut before
    the user's): in a deep stack only that shows that it compiles.
    Where a library called the user's, as `torch.save` calls a file's `write`, keep its frames too.
    """
    kept: list[CodeLine] = []
    after = 0
    dropped: CodeLine | None = None
    for frame in frames:
        user = is_user_code(frame.file)
        if after and (user or after > _FRAMES):
            break
        if user and dropped:
            kept.append(_with_text(dropped, user=False))
        if len(kept) < _FRAMES or user or after:
            kept.append(_with_text(frame, user=user))
        else:
            dropped = frame
        after += 1 if user or after else 0
    if dropped and not after:
        kept.append(_with_text(dropped, user=False))
    return tuple(kept)


def innermost_of(threads: Iterable[tuple[CodeLine, ...]]) -> tuple[CodeLine, ...]:
    """Return the innermost line of each thread; those of unstuck itself are left out."""
    found = (frames for frames in threads if frames and not any(is_ours(f.file) for f in frames))
    return tuple(_with_text(frames[0], user=is_user_code(frames[0].file)) for frames in found)


def _with_text(frame: CodeLine, user: bool) -> CodeLine:
    text = line(frame.file, frame.line)
    return CodeLine(frame.file, frame.line, frame.function, text, user)
