"""Ranks, durations and moments as text."""

from collections.abc import Iterable
from datetime import UTC, datetime

from unstuck.model.rank import CodeLine

_MOST_HOLES = 3
_MANY = 8
_MOST_RUNS = 6


def ranks_text(ranks: Iterable[int]) -> str:
    """Write ranks shortly: `rank 2`, `ranks 0,1,3`, `ranks 4-9`.

    Example:
        >>> ranks_text([3, 1, 0])
        'ranks 0,1,3'
    """
    found = sorted(set(ranks))
    return f"rank {found[0]}" if len(found) == 1 else f"ranks {numbers_text(found)}"


def numbers_text(numbers: Iterable[int]) -> str:
    """Compress numbers: runs as `a-b`, few holes as `except`, a long rest as a count.

    Example:
        >>> numbers_text(n for n in range(512) if n != 17)
        '0-511 except 17'
    """
    found = sorted(set(numbers))
    if not found:
        return "none"
    runs = _runs(found)
    holes = sorted(set(range(found[0], found[-1] + 1)) - set(found)) if len(runs) > 1 else []
    if 0 < len(holes) <= _MOST_HOLES and len(found) >= _MANY:
        return f"{found[0]}-{found[-1]} except {','.join(map(str, holes))}"
    if len(runs) > _MOST_RUNS:
        shown = ",".join(_run(run) for run in runs[:_MOST_RUNS])
        return f"{shown},... ({len(found)} in all)"
    return ",".join(_run(run) for run in runs)


def _runs(found: list[int]) -> list[tuple[int, int]]:
    runs = [(found[0], found[0])]
    for number in found[1:]:
        first, last = runs[-1]
        if number == last + 1:
            runs[-1] = (first, number)
        else:
            runs.append((number, number))
    return runs


def _run(run: tuple[int, int]) -> str:
    first, last = run
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


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
