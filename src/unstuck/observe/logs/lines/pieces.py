"""Lines cut out of a chunk: where they begin and end, their number, and their neighbours."""

from collections.abc import Iterator, Sequence

LONGEST_PIECE = 64 << 10
"""What is looked at of one line; a pattern needs far less."""


class Lines:
    """Finds the lines of hits in one chunk; numbers are counted only as far as needed."""

    def __init__(self, data: bytes, first_line: int) -> None:
        self.data = data
        self._counted_to = 0
        self._line = first_line

    def number(self, start: int) -> int:
        """Return the line's number; starts must not go back."""
        self._line += self.data.count(b"\n", self._counted_to, start)
        self._counted_to = start
        return self._line

    def finish(self) -> int:
        """Return the number of the line after the chunk."""
        return self.number(len(self.data))

    def around(self, end_of_hit: int) -> tuple[int, int]:
        """Return where the line of a hit begins and ends."""
        start = self.data.rfind(b"\n", 0, end_of_hit) + 1
        end = self.data.find(b"\n", end_of_hit)
        return start, len(self.data) if end < 0 else end

    def neighbours(self, start: int, end: int) -> tuple[str, str, str]:
        """Return the line before, the line, and the line after, as text."""
        before = self.data.rfind(b"\n", 0, max(start - 1, 0)) + 1 if start else 0
        after = self.data.find(b"\n", end + 1)
        after = len(self.data) if after < 0 else after
        return (
            text(self.data[before : max(start - 1, before)][-LONGEST_PIECE:]),
            text(self.data[start:end][:LONGEST_PIECE]),
            text(self.data[end + 1 : after][:LONGEST_PIECE]),
        )

    def following(self, end: int) -> Iterator[str]:
        """Yield the lines after the one that ends here, as text."""
        while end < len(self.data):
            start, end = end + 1, self.data.find(b"\n", end + 1)
            end = len(self.data) if end < 0 else end
            yield text(self.data[start:end][:LONGEST_PIECE])


def segment(data: bytes, start: int, end: int, hit: int) -> bytes:
    """Return the part of a line that a hit is in: bars rewrite a line with carriage returns."""
    left = data.rfind(b"\r", start, hit) + 1 or start
    right = data.find(b"\r", hit, end)
    right = end if right < 0 else right
    if right - left <= LONGEST_PIECE:
        return data[left:right]
    first = max(left, hit - LONGEST_PIECE // 2)
    return data[first : min(right, first + LONGEST_PIECE)]


def text(raw: bytes) -> str:
    """Decode whatever bytes a program wrote."""
    return raw.decode("utf-8", "replace")


def by_line(
    lines: Lines, hits: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
    """Yield start, end and hits of every line that has some, in order."""
    start, end = -1, -1
    group: list[tuple[int, int]] = []
    for hit in hits:
        if hit[0] > end or start < 0:
            if group:
                yield start, end, group
            start, end = lines.around(hit[0])
            group = []
        group.append(hit)
    if group:
        yield start, end, group
