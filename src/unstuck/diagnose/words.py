"""Ranks, durations and moments as text."""

from collections.abc import Iterable
from datetime import UTC, datetime

from unstuck.model.rank import CodeLine

_MOST_PIECES = 8


def ranks_text(ranks: Iterable[int]) -> str:
    """Write ranks shortly: `rank 2`, `ranks 0,1,3`, `ranks 4-9`.

    Example:
        >>> ranks_text([3, 1, 0])
        'ranks 0,1,3'
    """
    ordered = sorted(set(ranks))
    if len(ordered) == 1:
        return f"rank {ordered[0]}"
    return f"ranks {numbers_text(ordered)}"


def numbers_text(ordered: list[int]) -> str:
    """Write ascending numbers with runs of three and more as `a-b`, cut after a few pieces."""
    pieces: list[str] = []
    start = 0
    while start < len(ordered) and len(pieces) < _MOST_PIECES:
        end = start
        while end + 1 < len(ordered) and ordered[end + 1] == ordered[end] + 1:
            end += 1
        if end - start >= 2:
            pieces.append(f"{ordered[start]}-{ordered[end]}")
            start = end + 1
        else:
            pieces.append(str(ordered[start]))
            start += 1
    left = len(ordered) - start
    return ",".join(pieces) + (f" and {left} more" if left else "")


def seconds_text(seconds: float) -> str:
    """Write a duration with one decimal below ten seconds and none above."""
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def moment(unix: float) -> str:
    """Write a Unix time as ISO 8601 in UTC with milliseconds."""
    text = datetime.fromtimestamp(unix, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def place(line: CodeLine | None) -> str:
    """Write where a code line is: `train.py:41 (load_batch)`; empty when there is none."""
    if line is None:
        return ""
    name = line.file.replace("\\", "/").rsplit("/", 1)[-1]
    return f"{name}:{line.line}" + (f" ({line.function})" if line.function else "")
