"""Files that other processes read while they are written."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def whole_file(path: Path, most: int) -> bytes:
    """Read a file that somebody else may have put there: no pipe, no device, and not for ever.

    Raises:
        OSError: it is not an ordinary file, or has more than `most` bytes.
    """
    # Without O_NONBLOCK, to open a pipe that nobody writes would wait.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is not an ordinary file")
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most >> 20} MB")
    return content


def appended(path: Path) -> BinaryIO:
    """Open a file of ours to append to it, but no link that somebody else may have put there.

    Raises:
        OSError: it cannot be written, or is a link.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "ab")


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader finds the old content or the new, never a part of it.

    Raises:
        OSError: the directory cannot be written.

    Example:
        write_whole(run / "excluded.json", b"[]")
    """
    temporary = path.with_name(f".{path.name}.new")
    # Not through a link that somebody else may have put there: that would be his file's end.
    temporary.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o666), "wb") as file:
        file.write(content)
    temporary.replace(path)
