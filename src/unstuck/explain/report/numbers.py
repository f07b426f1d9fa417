"""Numbers and lists as people read them: ranks, sizes, durations, moments, places."""

import math
from datetime import datetime

from unstuck.model.verdict import StuckOperation

_DTYPES = {
    "float": ("float32", 4),
    "double": ("float64", 8),
    "half": ("float16", 2),
    "bfloat16": ("bfloat16", 2),
    "int": ("int32", 4),
    "long": ("int64", 8),
    "short": ("int16", 2),
    "char": ("int8", 1),
    "byte": ("uint8", 1),
    "bool": ("bool", 1),
}
"""The recorder's name for a type -> torch's name and its bytes."""

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def clock(moment: str) -> str:
    """Return the time of day of an ISO 8601 moment, or the text itself if it is not one."""
    try:
        return datetime.fromisoformat(moment).strftime("%H:%M:%S")
    except ValueError:
        return moment


def size(stuck: StuckOperation) -> str:
    """Return `1,024 elements (4 KiB) float32`, or nothing where no size is known.

    One dtype for several tensors counts for all of them, as the recorder writes it.
    """
    if not stuck.sizes:
        return ""
    counts = [math.prod(shape) for shape in stuck.sizes]
    elements = f"{sum(counts):,} element{'' if sum(counts) == 1 else 's'}"
    tensors = f"{len(counts)} tensors, " if len(counts) > 1 else ""
    kinds = [_DTYPES.get(name.lower(), (name, 0)) for name in stuck.dtypes]
    if len(kinds) == 1:
        kinds *= len(counts)
    names = "/".join(dict.fromkeys(name for name, _ in kinds))
    if len(kinds) != len(counts) or not all(width for _, width in kinds):
        return f"{tensors}{elements} {names}".rstrip()
    total = sum(count * width for count, (_, width) in zip(counts, kinds, strict=True))
    return f"{tensors}{elements} ({_bytes(total)}) {names}"


def _bytes(total: int) -> str:
    value = float(total)
    unit = 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value /= 1024
        unit += 1
    digits = f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
    return f"{digits} {_UNITS[unit]}"


def place(file: str, line: int, function: str, *, room: int, dots: str = "...") -> str:
    """Return `train.py:31 in load`; too long for `room`, the path loses its beginning.

    Where even the file's name does not fit, the function's name loses its end first.
    """
    spot = f":{line}"
    within = f" in {function}" if function else ""
    name = file.rsplit("/", 1)[-1]
    most = max(room - len(dots) - 1 - len(name) - len(spot), room // 3)
    if len(within) > most:
        within = within[: most - len(dots)] + dots
    space = room - len(spot) - len(within)
    if len(file) <= space:
        return file + spot + within
    kept = file[len(file) - (space - len(dots)) :]
    slash = kept.find("/")
    return dots + (kept[slash:] if slash >= 0 else kept) + spot + within
