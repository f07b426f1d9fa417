"""Durations as people and variables write them."""

import re

_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|sec|min|m|h|d)?")
_UNITS = {"ms": 0.001, "s": 1, "sec": 1, "": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def parse(text: str) -> float | None:
    """Return the seconds of `90`, `1.5h`, `2h30m` or `10 min`; None for anything else.

    Example:
        >>> parse("2h30m")
        9000.0
    """
    rest, seconds = text.strip().lower(), 0.0
    if not rest:
        return None
    while rest:
        found = _PART.match(rest)
        if found is None:
            return None
        seconds += float(found[1]) * _UNITS[found[2] or ""]
        rest = rest[found.end() :].lstrip()
    return seconds


def slurm(text: str) -> float | None:
    """Return the seconds of Slurm's `2-12:30:00`, `12:30:00`, `30:00` or `UNLIMITED` (None).

    Example:
        >>> slurm("1-00:00:00")
        86400.0
    """
    days, dash, clock = text.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdigit() for part in parts) or (dash and not days.isdigit()):
        return None
    hours, minutes, seconds = ([0] * (3 - len(parts)) + [int(part) for part in parts])[:3]
    return float((int(days or 0) * 24 + hours) * 3600 + minutes * 60 + seconds)
