"""Find literals in bytes, many at once: hyperscan where it is, else one search a literal."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, Protocol


class Scanner(Protocol):
    """Finds a fixed set of literals."""

    def scan(self, data: bytes) -> list[tuple[int, int]]:
        """Return (end offset, index of the literal) of every occurrence, by offset."""
        ...


def scanner(literals: Sequence[bytes]) -> Scanner:
    """Return the fastest scanner there is on this machine for these literals.

    Example:
        scanner([b"NCCL WARN", b"Traceback"]).scan(chunk)  # [(4711, 1)]
    """
    if not literals:
        return PlainScanner(())
    return HyperScanner(literals) if find_spec("hyperscan") else PlainScanner(literals)


class HyperScanner:
    """All literals in one pass, at memory speed."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        import hyperscan

        self._database: Any = hyperscan.Database()
        self._database.compile(
            expressions=list(literals), ids=list(range(len(literals))), literal=True
        )
        self._hits: list[tuple[int, int]] = []
        self._handler = _collector(self._hits)

    def scan(self, data: bytes) -> list[tuple[int, int]]:
        """Return (end offset, index of the literal) of every occurrence, by offset."""
        self._hits.clear()
        self._database.scan(data, match_event_handler=self._handler)
        return self._hits


class PlainScanner:
    """One search a literal: slower, but needs nothing."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._literals = tuple(literals)

    def scan(self, data: bytes) -> list[tuple[int, int]]:
        """Return (end offset, index of the literal) of every occurrence, by offset."""
        hits: list[tuple[int, int]] = []
        for index, literal in enumerate(self._literals):
            at = data.find(literal)
            while at >= 0:
                hits.append((at + len(literal), index))
                at = data.find(literal, at + 1)
        return sorted(hits)


def _collector(hits: list[tuple[int, int]]) -> Callable[..., None]:
    append = hits.append

    def collect(index: int, _start: int, end: int, _flags: int, _context: object) -> None:
        append((end, index))

    return collect
