"""Durations as people and schedulers write them: one formatter, one parser."""

import re

_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|m|sec|s|h|d)\s*")
_SECONDS = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_LONGEST_TEXT = 60
_LONGEST = 1e9
"""Thirty years: what is longer is a mistake, and overflows dates."""
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def text(seconds: float) -> str:
    """Write seconds with at most two units: `3.1 s`, `77 s`, `30 min`, `2 h 30 min`.

    Example:
        >>> text(9000)
        '2 h 30 min'
    """
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    rest = round(seconds)
    if rest < 120:
        return f"{rest} s"
    parts: list[str] = []
    for size, unit in _UNITS:
        if rest >= size and len(parts) < 2:
            parts.append(f"{rest // size} {unit}")
            rest %= size
    return " ".join(parts)


def parse(given: str) -> float | None:
    """Return the seconds of `90`, `1.5h`, `2h30m`, `10 min` or Slurm's `1-12:30:00`, else None.

    Example:
        >>> parse("2h30m")
        9000.0
    """
    written = given.strip().lower()
    if len(written) > _LONGEST_TEXT:
        return None
    seconds = _read(written)
    return seconds if seconds is not None and seconds <= _LONGEST else None


def _read(written: str) -> float | None:
    if ":" in written:
        return _clock(written)
    if re.fullmatch(r"\d+(?:\.\d+)?", written):
        return float(written)
    if re.fullmatch(f"(?:{_PART.pattern})+", written) is None:
        return None
    return sum(float(amount) * _SECONDS[unit] for amount, unit in _PART.findall(written))


def _clock(written: str) -> float | None:
    """Return the seconds of `1-12:30:00`, `12:30:00` or `30:00`."""
    found = re.fullmatch(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)", written)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(days * 86400 + hours * 3600 + minutes * 60 + seconds)
