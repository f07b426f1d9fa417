"""The text of a source line, so that a verdict can show the code and not only its place."""

import os
from functools import lru_cache

_MOST_BYTES = 2_000_000
_MOST_CHARACTERS = 160


def line(file: str, number: int) -> str:
    """Return one stripped source line; empty when the file cannot be read here."""
    lines = _lines(file)
    return lines[number - 1].strip()[:_MOST_CHARACTERS] if 0 < number <= len(lines) else ""


@lru_cache(maxsize=64)
def _lines(file: str) -> list[str]:
    try:
        if os.path.getsize(file) > _MOST_BYTES:
            return []
        with open(file, errors="replace") as text:
            return text.read().splitlines()
    except OSError:
        return []
