"""Files that other processes read while they are written."""

from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader finds the old content or the new, never a part of it.

    Raises:
        OSError: the directory cannot be written.

    Example:
        write_whole(run / "excluded.json", b"[]")
    """
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(content)
    temporary.replace(path)
