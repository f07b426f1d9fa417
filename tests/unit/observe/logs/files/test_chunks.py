"""Chunks end at line ends and stay small, whatever the file is like."""

import gzip
import io
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from unstuck.errors import LogUnreadableError
from unstuck.observe.logs.files.chunks import LONGEST, chunks, open_log

TEXT = b"".join(b"line %d\n" % number for number in range(1000))


def read(path: Path, size: int = 64) -> list[bytes]:
    with open_log(str(path)) as stream:
        return [chunk.data for chunk in chunks(stream, str(path), size)]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_plain_and_packed_files_read_the_same(tmp_path: Path, pack: Callable[[bytes], bytes]):
    path = tmp_path / "train.log"
    path.write_bytes(pack(TEXT))
    found = read(path)
    assert b"".join(found) == TEXT
    assert len(found) > 10
    assert all(part.endswith(b"\n") for part in found)


def test_a_last_line_without_an_end_is_kept(tmp_path: Path):
    path = tmp_path / "train.log"
    path.write_bytes(b"one\ntwo")
    assert read(path) == [b"one\n", b"two"]


def test_an_empty_file_has_no_chunks(tmp_path: Path):
    path = tmp_path / "train.log"
    path.touch()
    assert read(path) == []


def test_a_line_of_100_mb_is_cut_and_what_follows_is_read():
    class Endless(io.RawIOBase):
        """A line of 100 MB that is never in memory as a whole."""

        left = 100 << 20

        def read(self, size: int = -1, /) -> bytes:
            if self.left > 0:
                self.left -= size
                return b"x" * size
            tail, self.tail = self.tail, b""
            return tail

        tail = b"\nafter\n"

    found = list(chunks(Endless(), "log", 1 << 20))
    assert [len(chunk.data) for chunk in found] == [LONGEST + 1, len(b"after\n")]
    assert found[0].skipped == (100 << 20) - LONGEST + 1
    assert found[1].data == b"after\n"


def test_no_permission_is_said_with_the_path(tmp_path: Path):
    with pytest.raises(LogUnreadableError, match=r"cannot read .*: Is a directory"):
        read(tmp_path)


def test_a_cut_gzip_gives_what_it_has(tmp_path: Path):
    path = tmp_path / "train.log.gz"
    path.write_bytes(gzip.compress(TEXT)[:-20])
    found = b"".join(read(path))
    assert TEXT.startswith(found)


def test_a_growing_file_is_read_as_far_as_it_is(tmp_path: Path):
    path = tmp_path / "train.log"
    path.write_bytes(b"one\ntw")
    with open_log(str(path)) as stream, path.open("ab") as writer:
        found = chunks(stream, str(path), 6)
        assert next(found).data == b"one\n"
        writer.write(b"o\nthree\n")
        writer.flush()
        assert b"".join(chunk.data for chunk in found) == b"two\nthree\n"
