"""Find literals in bytes, many at once: hyperscan where it is, else one search a literal."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol


class Literal(NamedTuple):
    """What to look for."""

    text: bytes
    any_case: bool = False


class Scanner(Protocol):
    """Finds a fixed set of literals."""

    def scan(self, data: bytes) -> list[tuple[int, int]]:
        """Return (end offset, index of the literal) of every occurrence, by offset."""
        ...


def scanner(literals: Sequence[Literal]) -> Scanner:
    """Return the fastest scanner there is on this machine for these literals.

    Example:
        scanner([Literal(b"NCCL WARN"), Literal(b"Traceback")]).scan(chunk)  # [(4711, 1)]
    """
    if not literals:
        return PlainScanner(())
    return HyperScanner(literals) if _has_hyperscan() else PlainScanner(literals)


def _has_hyperscan() -> bool:
    """Tell whether hyperscan is there and loads: on an old processor it does not."""
    try:
        import_module("hyperscan")
    except (ImportError, OSError):
        return False
    return True


class HyperScanner:
    """All literals in one pass, at memory speed."""

    def __init__(self, literals: Sequence[Literal]) -> None:
        import hyperscan

        self._database: Any = hyperscan.Database()
        self._database.compile(
            expressions=[literal.text for literal in literals],
            ids=list(range(len(literals))),
            flags=[hyperscan.HS_FLAG_CASELESS if literal.any_case else 0 for literal in literals],
            literal=True,
        )

    def scan(self, data: bytes) -> list[tuple[int, int]]:
        """Return (end offset, index of the literal) of every occurrence, by offset."""
        hits: list[tuple[int, int]] = []

        def collect(index: int, _start: int, end: int, _flags: int, _context: object) -> None:
            hits.append((end, index))

        self._database.scan(data, match_event_handler=collect)
        return hits


class PlainScanner:
    """One search a literal: slower, but needs nothing."""

    def __init__(self, literals: Sequence[Literal]) -> None:
        self._literals = tuple(literals)

    def scan(self, data: bytes) -> list[tuple[int, int]]:
        """Return (end offset, index of the literal) of every occurrence, by offset."""
        lowered = data.lower() if any(literal.any_case for literal in self._literals) else b""
        hits: list[tuple[int, int]] = []
        for index, (text, any_case) in enumerate(self._literals):
            where, what = (lowered, text.lower()) if any_case else (data, text)
            at = where.find(what)
            while at >= 0:
                hits.append((at + len(text), index))
                at = where.find(what, at + 1)
        return sorted(hits)
