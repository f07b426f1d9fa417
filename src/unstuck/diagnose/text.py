"""Ranks, durations and moments as text."""

import signal
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice, pairwise

from unstuck import durations
from unstuck.model.rank import CodeLine

_MOST_HOLES = 3
_MANY = 8
_MOST_RUNS = 6
_MOST_HOSTS = 4
_NO_DESCRIPTION = ("", "undefined")
"""What `new_group` calls a group that got no `group_desc`."""


def ranks_text(ranks: Iterable[int]) -> str:
    """Write ranks shortly: `rank 2`, `ranks 0,1,3`, `ranks 4-9`.

    Example:
        >>> ranks_text([3, 1, 0])
        'ranks 0,1,3'
    """
    found = sorted(set(ranks))
    return f"rank {found[0]}" if len(found) == 1 else f"ranks {_compress(found)}"


def group_text(name: str, description: str) -> str:
    """Name a process group: by its description, unless torch made that up.

    Example:
        >>> group_text("3", "undefined")
        'group 3'
    """
    return f"group {name}" if description in _NO_DESCRIPTION else description


def number_text(number: int) -> str:
    """Write the number of an operation, ` #41`; nothing where only stacks were read.

    Example:
        >>> number_text(41), number_text(0)
        (' #41', '')
    """
    return f" #{number}" if number else ""


def numbers_text(numbers: Iterable[int]) -> str:
    """Compress numbers: runs as `a-b`, a few gaps as `except`, a long rest as a count.

    Example:
        >>> numbers_text(n for n in range(512) if n != 17)
        '0-511 except 17'
    """
    return _compress(sorted(set(numbers)))


def _compress(found: list[int]) -> str:
    if not found:
        return "none"
    runs = _runs(found)
    missing = found[-1] - found[0] + 1 - len(found)
    if 0 < missing <= _MOST_HOLES and len(found) >= _MANY:
        holes = [n for (_, last), (first, _) in pairwise(runs) for n in range(last + 1, first)]
        return f"{found[0]}-{found[-1]} except {','.join(map(str, holes))}"
    if len(runs) > _MOST_RUNS:
        shown = ",".join(_run(run) for run in runs[:_MOST_RUNS])
        return f"{shown},... ({len(found)} in all)"
    return ",".join(_run(run) for run in runs)


def _runs(found: list[int]) -> list[tuple[int, int]]:
    """Divide numbers into runs; of those that are too many to be written the rest is one."""
    ends = ((one, after) for one, after in pairwise(found) if after != one + 1)
    known = list(islice(ends, _MOST_RUNS))
    firsts = [found[0], *(after for _, after in known)]
    lasts = [*(one for one, _ in known), found[-1]]
    return list(zip(firsts, lasts, strict=True))


def _run(run: tuple[int, int]) -> str:
    first, last = run
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


def hosts_text(hosts: Iterable[str]) -> str:
    """Name a few hosts as a sentence does.

    Example:
        hosts_text(["node1", "node2"])  # "node1 and node2"
    """
    names = list(dict.fromkeys(hosts))
    if len(names) > _MOST_HOSTS:
        names = [*names[:_MOST_HOSTS], f"{len(names) - _MOST_HOSTS} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def signal_name(number: int) -> str:
    """Write a signal's name: `SIGKILL`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


seconds_text = durations.text


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


def sentence(text: str) -> str:
    """Begin a sentence with `what`; the name of a host stays as it is."""
    return "W" + text[1:] if text.startswith("what ") else text
