"""Read logs once, from end to end: known failures, unknown ones, and their context.

The caller brings the literals to look for and a function that says which records a line
matches; the knowledge base itself is not known here.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec import Struct, field

from unstuck.errors import LogUnreadableError
from unstuck.model.logs import LogFailure, LogLine, LogMatch, LogReading
from unstuck.observe.logs.files import chunks
from unstuck.observe.logs.files.sources import Source
from unstuck.observe.logs.find import templates
from unstuck.observe.logs.find.literals import Literal, scanner
from unstuck.observe.logs.lines import pieces, prefix, tracebacks, wrapped
from unstuck.observe.logs.lines.context import HEAD, WINDOW, Context

MOST_MATCHES = 5
"""Kept for one record, file and rank; more add nothing."""
MOST_HITS = 20_000
"""Looked at for one literal; a line that occurs more often is not the failure."""
MOST_FRAMES = 400
MOST_WINDOWS = 12
"""Looked at before matches, for one file; a rank's own file needs one."""
MOST_UNKNOWN_HITS = 20_000
PASTED = 64 << 10
"""What somebody may have copied from a terminal; looked at for single wrapped lines."""
SHOWN = 600
"""Characters of a line that are kept for showing it."""

Found = list[tuple[str, str, dict[str, str]]]
"""(record id, role, fields) for every record that matches a line."""
Confirm = Callable[[str, Collection[int] | None], Found]
"""Text of a line, and the numbers of the anchors in it where they are known, -> matches."""


class Reading(Struct):
    """What one run over the logs found."""

    logs: LogReading
    unknown: list[templates.Cluster]
    notes: list[str] = field(default_factory=list[str])
    """What could not be read, or was cut."""
    files: int = 0
    lines: int = 0
    size: int = 0


class Reader:
    """Reads any number of logs into one `Reading`.

    Example:
        found = Reader(anchors, confirm).read(sources.find(["logs"]))
    """

    def __init__(
        self,
        anchors: Sequence[Literal],
        confirm: Confirm,
        *,
        since: float | None = None,
        progress: Callable[[int], None] = lambda _size: None,
    ) -> None:
        self.confirm = confirm
        self._since = since
        self._progress = progress
        self._known = len(anchors)
        self._anchors = tuple(anchors)
        self._scanner = scanner((*anchors, *templates.WORDS))
        self._unknown_hits = 0
        self.year = time.gmtime().tm_year
        self.context = Context(self.year)
        self.clusters = templates.Clusters()
        self.matches: list[LogMatch] = []
        self.raised: list[LogFailure] = []
        self.failures: list[LogFailure] = []
        self.found = Reading(LogReading(()), [])
        self._kept: Counter[tuple[str, str, int | None]] = Counter()
        self._hits: Counter[int] = Counter()
        self.windows: Counter[str] = Counter()

    def read(self, found: Sequence[Source]) -> Reading:
        """Read all of them; a file that cannot be read is noted, unless it is the only one."""
        for source in found:
            try:
                self._read(source)
            except LogUnreadableError as error:
                if len(found) == 1:
                    raise
                self.found.notes.append(error.message)
        return self._finish()

    def read_bytes(self, data: bytes, name: str = "log") -> Reading:
        """Read what is in memory already."""
        self._feed(Source(name), [chunks.Chunk(data, 0)])
        return self._finish()

    def _finish(self) -> Reading:
        context = self.context
        self.found.logs = LogReading(
            tuple(self.matches),
            context.phases,
            tuple(self.failures),
            tuple(self.raised),
            tuple(sorted(context.ranks)),
            context.world_size,
            context.usage_error,
            context.distributed,
            tuple(sorted(context.hosts)),
        )
        self.found.unknown = list(self.clusters.found.values())
        return self.found

    def _read(self, source: Source) -> None:
        with chunks.open_log(source.path) as stream:
            self._feed(source, chunks.chunks(stream, source.path))

    def _feed(self, source: Source, chunks: Iterable[chunks.Chunk]) -> None:
        number, tail = 1, b""
        for chunk in chunks:
            data = chunk.data
            if chunk.offset == 0:
                data = self._unwrapped(data)
                self.context.look_round(pieces.text(data[:HEAD]))
            number = _FileChunk(self, source, data, number, tail).run()
            tail = (tail + data[-WINDOW:])[-WINDOW:]
            if chunk.skipped:
                self.found.notes.append(
                    f"{source.path}:{number - 1}: a line of "
                    f"{len(chunk.data) + chunk.skipped:,} bytes was cut at {len(chunk.data):,}"
                )
            self.found.size += len(chunk.data) + chunk.skipped
            self._progress(len(chunk.data) + chunk.skipped)
        self.found.files += 1
        self.found.lines += number if tail and not tail.endswith(b"\n") else number - 1
        self.context.look(pieces.text(tail), source, number)

    def _unwrapped(self, data: bytes) -> bytes:
        """Put wrapped lines together; a single one where that makes a known message whole."""
        whole = wrapped.unwrap(data)
        if len(whole) > PASTED:
            return whole
        once = wrapped.unwrap(whole, least=1)
        if once == whole:
            return whole
        new = self.anchors_of(self._scanner.scan(once)) - self.anchors_of(self._scanner.scan(whole))
        return once if new else whole

    def scan(self, data: bytes) -> list[tuple[int, int]]:
        """Return the hits of a chunk; unknown failures are given up when there are too many."""
        hits = self._scanner.scan(data)
        if len(hits) > MOST_HITS // 10:
            hits = self._thinned(hits)
        if self._unknown_hits <= MOST_UNKNOWN_HITS:
            self._unknown_hits += sum(index >= self._known for _, index in hits)
            if self._unknown_hits > MOST_UNKNOWN_HITS:
                self._scanner = scanner(self._anchors)
        return hits

    def _thinned(self, hits: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Leave out the literals that occur too often to be the failure."""
        kept: list[tuple[int, int]] = []
        for hit in hits:
            self._hits[hit[1]] += 1
            if self._hits[hit[1]] <= MOST_HITS:
                kept.append(hit)
        return kept

    def anchors_of(self, hits: Iterable[tuple[int, int]]) -> set[int]:
        """Return the anchors among these hits, without the words that only look like failures."""
        return {index for _, index in hits if index < self._known}

    def wants(self, record: str, line: LogLine) -> bool:
        """Count a match, and tell whether it is still worth keeping."""
        key = (record, line.file, line.rank)
        self._kept[key] += 1
        return self._kept[key] <= MOST_MATCHES

    def cut(self, text: str, anchors: Collection[int]) -> str:
        """Return what is kept of a long line for showing it: from a little before the match."""
        if len(text) <= SHOWN:
            return text
        places = [text.find(pieces.text(self._anchors[index].text)) for index in anchors]
        first = min((place for place in places if place >= 0), default=0)
        start = max(0, min(first - SHOWN // 4, len(text) - SHOWN))
        return text[start : start + SHOWN]

    def too_old(self, moment: float | None) -> bool:
        """Tell whether a line is from before the time asked for."""
        return self._since is not None and moment is not None and moment < self._since


class _FileChunk:
    """One chunk of one file on its way through the reader."""

    def __init__(
        self, reader: Reader, source: Source, data: bytes, first: int, tail: bytes
    ) -> None:
        self._reader = reader
        self._source = source
        self._data = data
        self._tail = tail
        self._lines = pieces.Lines(data, first)
        self._window_end = -WINDOW

    def run(self) -> int:
        """Take in every line with a hit; return the number of the line after the chunk."""
        for start, end, hits in pieces.by_line(self._lines, self._reader.scan(self._data)):
            number = self._lines.number(start)
            anchors = self._reader.anchors_of(hits)
            for raw in {pieces.segment(self._data, start, end, at): None for at, _ in hits}:
                self._take(raw, (start, end), number, anchors)
        return self._lines.finish()

    def _take(self, raw: bytes, span: tuple[int, int], number: int, anchors: set[int]) -> None:
        text = prefix.clean(pieces.text(raw)).rstrip("\r\n")
        if wrapped.is_cut(text):
            after = (prefix.clean(line).rstrip("\r") for line in self._lines.following(span[1]))
            text = wrapped.whole(text, after)
        text = text.rstrip()
        head = prefix.parse(text, self._reader.year)
        if self._reader.too_old(head.time):
            return
        found = self._reader.confirm(text, anchors) if anchors else []
        if anchors and not found:
            text, found = self._joined(span, text, anchors)
        elif found:
            text, found = self._folded(span, text, anchors, found)
        line = self._line(self._reader.cut(text, anchors), head, number)
        for record, role, fields in found:
            if self._reader.wants(record, line):
                self._reader.matches.append(LogMatch(record, role, line, fields))
        body = head.body.strip()
        if found and any(role not in {"harmless", "diagnostic"} for _, role, _ in found):
            self._look_back(span, number)
        elif not found and templates.looks_failed(body) and not self._reader.confirm(text, None):
            self._reader.clusters.add(line, body)
        if exception := templates.exception(body):
            self._raised(LogFailure(line, exception), span, known=bool(found))

    def _joined(self, span: tuple[int, int], text: str, anchors: set[int]) -> tuple[str, Found]:
        """Try the line with its neighbours: terminals and web pages wrap long lines."""
        before, here, after = (
            prefix.clean(part).rstrip("\r") for part in self._lines.neighbours(*span)
        )
        for parts in ((here, after), (before, here), (before, here, after)):
            whole = "".join(parts)
            for candidate in (whole, " ".join(part.strip() for part in parts)):
                if found := self._reader.confirm(candidate, anchors):
                    return candidate, found
        return text, []

    def _folded(
        self, span: tuple[int, int], text: str, anchors: set[int], found: Found
    ) -> tuple[str, Found]:
        """Join the indented lines that continue a message."""
        after = (prefix.clean(line).rstrip("\r") for line in self._lines.following(span[1]))
        whole = wrapped.folded(text, after)
        return (whole, self._reader.confirm(whole, anchors)) if whole != text else (text, found)

    def _line(self, text: str, head: prefix.Prefix, number: int) -> LogLine:
        source = self._source
        rank = source.rank if head.rank is None else head.rank
        if rank is not None:
            self._reader.context.ranks.add(rank)
        host = head.host or source.host
        return LogLine(source.path, number, text.strip()[:SHOWN], rank, host, head.time)

    def _before(self, start: int, size: int) -> str:
        first = max(0, start - size)
        window = self._data[first:start]
        missing = size - len(window)
        return pieces.text((self._tail[-missing:] if missing > 0 and first == 0 else b"") + window)

    def _look_back(self, span: tuple[int, int], number: int) -> None:
        """Look at the lines before a match once; what was looked at is not again."""
        seen = self._reader.windows
        if seen[self._source.path] >= MOST_WINDOWS or 0 <= span[0] - self._window_end < WINDOW // 2:
            return
        seen[self._source.path] += 1
        self._window_end = span[1]
        here = pieces.text(self._data[span[0] : span[1]][: pieces.LONGEST_PIECE])
        window = self._before(span[0], WINDOW) + here
        self._reader.context.look(window, self._source, number)

    def _raised(self, failure: LogFailure, span: tuple[int, int], *, known: bool) -> None:
        """Keep an exception with the frame that raised it."""
        kept = self._reader.raised if known else self._reader.failures
        if len(kept) >= MOST_FRAMES:
            return
        above = self._before(span[0], 4 * WINDOW).split("\n")
        frame = tracebacks.innermost(above[:-1], failure.line.rank)
        kept.append(LogFailure(failure.line, failure.exception, frame))
