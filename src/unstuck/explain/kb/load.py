"""The knowledge base in memory, and a cache of it so that a command starts fast.

Reading a hundred TOML files takes a third of a second; the cache, keyed by every file's
name, size and time, takes a few milliseconds. It is data only (msgpack): nothing in it runs.
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
from unstuck.explain.kb.schema import Record

KEPT = 4
"""Cache files left in place: one a combination of directories in use."""


class _Cached(msgspec.Struct, frozen=True):
    records: tuple[Record, ...]
    origins: tuple[str, ...]


class KnowledgeBase:
    """All records by id, and how they hang together."""

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
        """Return one record; a unique end of its id is enough.

        Raises:
            RecordNotFoundError: with the nearest ids there are.
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

    def search(self, words: str | Sequence[str], limit: int = 10) -> list[Record]:
        """Return the records that fit these words or this message best, best first.

        Example:
            kb.search("RuntimeError: [torch.distributed] Barrier timeout after 600000 ms")
        """
        from unstuck.explain.kb.search import search

        return search(self, words if isinstance(words, str) else " ".join(words), limit)


def load(extra: Sequence[Path] = ()) -> KnowledgeBase:
    """Return the built-in records with those of plug-ins, `UNSTUCK_KB` and these directories.

    Raises:
        RecordError: a record cannot be read, or its pattern could run for ever.
    """
    roots = read.directories(extra)
    found = {root: read.files(root) for root in roots}
    cache = _cache_file(_fingerprint(found))
    cached = _from_cache(cache)
    if cached is None:
        cached = _from_files(found)
        _to_cache(cache, cached)
    ids = (record.id for record in cached.records)
    return KnowledgeBase(cached.records, dict(zip(ids, cached.origins, strict=True)))


def _from_files(found: Mapping[Path, Sequence[Path]]) -> _Cached:
    read_so_far: dict[str, tuple[Record, str]] = {}
    for root, paths in found.items():
        for path in paths:
            record = _usable(path, root)
            read_so_far[record.id] = (record, str(path))
    both = [read_so_far[record_id] for record_id in sorted(read_so_far)]
    return _Cached(tuple(record for record, _ in both), tuple(origin for _, origin in both))


def _usable(path: Path, root: Path) -> Record:
    """Read one record and refuse what would break or hang the reader of a log."""
    try:
        record = read.read(path)
        why = _why_unusable(record, read.expected_id(path, root))
    except RecordError as error:
        why, record = error.message, None
    if record is None or why:
        message = f"the record {path} cannot be used: {why}"
        raise RecordError(message, hint=f"unstuck kb check {root}")
    return record


def _why_unusable(record: Record, expected: str) -> str:
    if record.id != expected:
        return f"its id is {record.id}, its place {expected}"
    problems = ((p, regex.problem(p)) for p in record.patterns)
    return next((f"the pattern {p} {why}" for p, why in problems if why), "")


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
    if path is None:
        return None
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=_Cached)
    except (OSError, msgspec.MsgspecError):
        return None


def _to_cache(path: Path | None, cached: _Cached) -> None:
    """Store it if that is possible; a home without room or rights only costs time."""
    if path is None:
        return
    import tempfile

    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".records-")
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.msgpack.encode(cached))
        Path(name).replace(path)
        caches = sorted(path.parent.glob("records-*.msgpack"), key=lambda p: p.stat().st_mtime)
        for old in caches[:-KEPT]:
            old.unlink(missing_ok=True)
