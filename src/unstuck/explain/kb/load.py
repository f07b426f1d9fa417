"""The knowledge base in memory, and a cache of it so that a command starts fast.

Reading hundreds of TOML files takes a third of a second; the cache, keyed by every file's
name, size and time, takes a few milliseconds. It is plain data (msgpack) behind its checksum.
"""

import contextlib
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from unstuck._version import __version__
from unstuck.errors import RecordError, RecordNotFoundError
from unstuck.explain.kb import read, regex
from unstuck.explain.kb.schema import Record, say
from unstuck.model.logs import LogCause, LogRecord

KEPT = 4
"""Cache files left in place: one for each combination of directories in use."""
_DIGEST = hashlib.sha256().digest_size


_Cached = tuple[tuple[Record, str], ...]
"""Every record with the file it was read from."""


class KnowledgeBase:
    """All records by id, and how they are related."""

    def __init__(self, records: Sequence[Record], origins: Mapping[str, str] | None = None) -> None:
        self.records: dict[str, Record] = {record.id: record for record in records}
        self.origins: dict[str, str] = dict(origins or {})
        """Id -> the file it was read from."""
        self._refinements: dict[str, list[Record]] = {}
        for record in self.records.values():
            if record.refines:
                self._refinements.setdefault(record.refines, []).append(record)

    def refinements(self, record_id: str) -> list[Record]:
        """Return the records that refine this one."""
        return self._refinements.get(record_id, [])

    def get(self, record_id: str) -> Record:
        """Return one record; the last part of its id is enough if it is unique.

        Raises:
            RecordNotFoundError: suggests the most similar ids.
        """
        if record_id in self.records:
            return self.records[record_id]
        ends = [found for found in self.records if found.rpartition("/")[2] == record_id]
        if len(ends) == 1:
            return self.records[ends[0]]
        from difflib import get_close_matches

        near = ends or get_close_matches(record_id, self.records, n=3, cutoff=0.5)
        hint = f"did you mean {', '.join(near)}?" if near else "see `unstuck kb list`"
        raise RecordNotFoundError(f"there is no record `{record_id}`", hint=hint)

    def for_logs(self, lang: str) -> dict[str, LogRecord]:
        """Return what the diagnosis of logs needs of each record, in one language."""
        return {record.id: _for_logs(record, lang) for record in self.records.values()}

    def search(self, words: str | Sequence[str], limit: int = 10) -> list[Record]:
        """Return the records that match these words or this message, best first.

        Example:
            kb.search("RuntimeError: [torch.distributed] Barrier timeout after 600000 ms")
        """
        from unstuck.explain.kb.search import search

        return search(self, words if isinstance(words, str) else " ".join(words), limit)


def _for_logs(record: Record, lang: str) -> LogRecord:
    return LogRecord(
        record.id,
        str(record.role),
        say(record.title, lang),
        record.category,
        record.domain,
        tuple(
            LogCause(cause.cause, say(cause.evidence, lang), cause.facts, cause.reported)
            for cause in record.causes
        ),
        record.confidence,
        record.refines,
        record.facts,
    )


def load(extra: Sequence[Path] = ()) -> KnowledgeBase:
    """Return the built-in records with those of plug-ins, `UNSTUCK_KB` and these directories.

    Raises:
        RecordError: a record cannot be read, or its pattern could run forever.
    """
    found = {root: read.files(root) for root in read.directories(extra)}
    cache = _cache_file(_fingerprint(found))
    cached = _from_cache(cache)
    if cached is None:
        cached = _from_files(found)
        _to_cache(cache, cached)
    records = [record for record, _ in cached]
    return KnowledgeBase(records, {record.id: origin for record, origin in cached})


def _from_files(found: Mapping[Path, Sequence[Path]]) -> _Cached:
    records: dict[str, tuple[Record, str]] = {}
    for root, paths in found.items():
        for path in paths:
            record = _usable(path, root)
            records[record.id] = (record, str(path))
    return tuple(records[record_id] for record_id in sorted(records))


def _usable(path: Path, root: Path) -> Record:
    """Read one record; refuse what would break or hang whoever reads a log with it."""

    def unusable(why: str) -> RecordError:
        message = f"the record {path} cannot be used: {why}"
        return RecordError(message, hint=f"unstuck kb check {root}")

    try:
        record = read.read(path)
    except RecordError as error:
        raise unusable(error.message) from error
    expected = read.expected_id(path, root)
    if record.id != expected:
        raise unusable(f"its id is {record.id}, its place {expected}")
    for pattern in record.patterns:
        if why := regex.problem(pattern):
            raise unusable(f"the pattern {pattern} {why}")
    return record


def _fingerprint(found: Mapping[Path, Sequence[Path]]) -> str:
    digest = hashlib.sha256(f"{__version__}\n{Path(__file__).stat().st_mtime_ns}\n".encode())
    for root, paths in found.items():
        digest.update(f"{root.resolve()}\n".encode("utf-8", "surrogateescape"))
        for path in paths:
            with contextlib.suppress(OSError):
                stat = path.stat()
                line = f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\0{stat.st_ino}\n"
                digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:24]


def _cache_file(fingerprint: str) -> Path | None:
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        home = Path(base) if base else Path("~/.cache").expanduser()
    except RuntimeError:  # a user without a home
        return None
    return home / "unstuck" / f"records-{fingerprint}.msgpack"


def _from_cache(path: Path | None) -> _Cached | None:
    """Read the cache; one that is damaged is as good as none."""
    if path is None:
        return None
    with contextlib.suppress(OSError, ValueError, RecursionError):
        content = path.read_bytes()
        digest, data = content[:_DIGEST], content[_DIGEST:]
        if hashlib.sha256(data).digest() == digest:
            return msgspec.msgpack.decode(data, type=_Cached)
    return None


def _to_cache(path: Path | None, cached: _Cached) -> None:
    """Store it if possible; without room or permission the next start is only slower."""
    if path is None:
        return
    data = msgspec.msgpack.encode(cached)
    temporary = path.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(hashlib.sha256(data).digest() + data)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        caches = sorted(path.parent.glob("records-*.msgpack"), key=lambda p: p.stat().st_mtime)
        for old in caches[:-KEPT]:
            old.unlink(missing_ok=True)
