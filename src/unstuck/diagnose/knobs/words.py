"""Durations as a person would write them."""

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


def duration(seconds: float) -> str:
    """Write seconds with at most two units: `77 s`, `30 min`, `2 h 30 min`.

    Example:
        >>> duration(9000)
        '2 h 30 min'
    """
    if seconds < 120:
        return f"{seconds:.3g} s"
    rest = round(seconds)
    parts: list[str] = []
    for size, unit in _UNITS:
        if rest >= size and len(parts) < 2:
            parts.append(f"{rest // size} {unit}")
            rest %= size
    if rest and len(parts) < 2:
        parts.append(f"{rest} s")
    return " ".join(parts)
