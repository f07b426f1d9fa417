"""Bytes of a log in chunks that end at a line's end; memory stays bounded for any input.

A line longer than `LONGEST` is cut there, and the number of bytes left out is reported.
"""

import gzip
import sys
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import IO, Protocol, cast

from msgspec import Struct

from unstuck.errors import LogUnreadableError
from unstuck.observe.logs.files.sources import STDIN

CHUNK = 4 << 20
LONGEST = 1 << 20

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


class Chunk(Struct, frozen=True):
    """Whole lines, except where the last one had no end or was cut."""

    data: bytes
    offset: int
    """Where it begins in the file, uncompressed."""
    skipped: int = 0
    """Bytes of an overlong line that were left out after it."""


class Readable(Protocol):
    """What a chunk can be read from."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, none at the end."""
        ...


@contextmanager
def open_log(path: str) -> Generator[Readable]:
    """Open a log for reading: plain, .gz or .zst by its first bytes; `-` is standard input."""
    if path == STDIN:
        yield sys.stdin.buffer
        return
    with _opened(path) as raw:
        head = _read(raw, path, 4)
        whole = _Begun(head, raw)
        if head.startswith(_GZIP):
            with gzip.open(cast("IO[bytes]", whole)) as unpacked:
                yield cast("Readable", unpacked)
        elif head == _ZSTD:
            yield _zstd(path, whole)
        else:
            yield whole


class _Begun:
    """A file whose first bytes were read: a pipe, as of `<(command)`, cannot be rewound."""

    def __init__(self, head: bytes, rest: FileIO) -> None:
        self._head = head
        self._rest = rest

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes, none at the end."""
        if self._head:
            found, self._head = self._head[:size], self._head[size:] if size >= 0 else b""
            return found
        return self._rest.read(size) or b""


def _opened(path: str) -> FileIO:
    try:
        return Path(path).open("rb", buffering=0)
    except OSError as error:
        raise LogUnreadableError(
            f"cannot read {path}: {error.strerror}", hint=f"ls -ld {path}"
        ) from error


def chunks(stream: Readable, path: str, size: int = CHUNK) -> Iterator[Chunk]:
    """Yield the stream in chunks of about `size` that end at a line's end.

    Example:
        for chunk in chunks(open_log("train.log"), "train.log"):
            print(chunk.data.count(b"\\n"))
    """
    rest = b""
    offset = 0
    while data := _read(stream, path, size):
        end = data.rfind(b"\n") + 1
        if end:
            yield Chunk(b"".join((rest, memoryview(data)[:end])), offset)
            offset += len(rest) + end
            rest = data[end:]
        elif len(rest) + len(data) <= LONGEST:
            rest += data
        else:
            kept = (rest + data)[:LONGEST]
            gone, rest = _skip_line(stream, path, size, len(rest) + len(data) - len(kept))
            yield Chunk(kept + b"\n", offset, gone)
            offset += len(kept) + gone
    if rest:
        yield Chunk(rest, offset)


def _skip_line(stream: Readable, path: str, size: int, gone: int) -> tuple[int, bytes]:
    """Read on to the end of an overlong line; return what was left out and what follows."""
    while data := _read(stream, path, size):
        end = data.find(b"\n") + 1
        if end:
            return gone + end, data[end:]
        gone += len(data)
    return gone, b""


def _read(stream: Readable | FileIO, path: str, size: int) -> bytes:
    try:
        return stream.read(size) or b""
    except EOFError:
        # A packed file that was cut short, or is still being written: what is there counts.
        return b""
    except (OSError, zlib.error, *_zstd_errors()) as error:
        raise LogUnreadableError(f"cannot read {path}: {error}", hint=f"ls -ld {path}") from error


def _zstd_errors() -> tuple[type[Exception], ...]:
    zstandard = sys.modules.get("zstandard")
    return (zstandard.ZstdError,) if zstandard else ()


def _zstd(path: str, raw: _Begun) -> Readable:
    try:
        import zstandard
    except ImportError as error:
        raise LogUnreadableError(
            f"{path} is compressed with zstd, and the package zstandard is not installed",
            hint="pip install zstandard, or: zstd -dc FILE | unstuck explain -",
        ) from error
    reader = zstandard.ZstdDecompressor().stream_reader(
        cast("IO[bytes]", raw), read_across_frames=True
    )
    return cast("Readable", reader)
