"""Which files to read, and what their names say about rank and host.

logs/none_x/attempt_0/3/stderr.log     torchrun: attempt 0, local rank 3
slurm-4711.node7.3.out                 Slurm %j.%N.%t: host node7, task 3
rank_3.log, worker-3.log, out.3.txt    one file a rank
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from unstuck.errors import LogNotFoundError, LogUnreadableError

STDIN = "-"

_TORCHRUN = re.compile(r"(?:^|/)attempt_(\d+)/(\d+)/std(?:out|err)\.log(?:\.gz|\.zst)?$")
_TORCHRUN_HOST = re.compile(r"(?:^|/)([^/]+)/[^/]+/attempt_\d+/\d+/[^/]+$")
_RANK = re.compile(
    r"(?:rank|worker|task|proc|process|trainer)[_.=-]?(\d{1,5})(?![\d:])", re.IGNORECASE
)
_SLURM_TASK = re.compile(
    r"slurm-\d+(?:_\d+)?[._-](?P<host>[A-Za-z][\w-]*?\d*)[._-](?P<task>\d{1,5})\."
)
_LAST_NUMBER = re.compile(r"[._-](\d{1,5})\.(?:log|out|err|txt)(?:\.gz|\.zst)?$")
_BINARY = re.compile(
    r"\.(?:pth?|bin|np[yz]|safetensors|ckpt|png|jpe?g|pkl|pickle|pyc|so|zip|tar|whl|parquet|arrow|db"
    r"|sqlite|pb|onnx|h5|mp4)$"
)


class Source(Struct, frozen=True):
    """One file to read, and what its name says."""

    path: str
    """As the user gave it, so that file:line can be clicked; `-` is standard input."""
    rank: int | None = None
    host: str = ""
    attempt: int = 0


def find(paths: Sequence[str]) -> list[Source]:
    """Return the files behind these paths, directories walked, in a stable order.

    Example:
        [source.rank for source in find(["logs"])]  # [0, 1, 2, 3]
    """
    found: dict[str, Source] = {}
    for path in paths:
        for file in [path] if path == STDIN else _files(Path(path)):
            found.setdefault(file, describe(file))
    if not found:
        where = ", ".join(paths)
        raise LogNotFoundError(f"no log files are below {where}", hint="give log files")
    return _numbered(list(found.values()))


def describe(path: str) -> Source:
    """Return what a file's name says about its rank, host and attempt."""
    if torchrun := _TORCHRUN.search(path):
        host = _TORCHRUN_HOST.search(path)
        named = host is not None and any(character.isdecimal() for character in host.group(1))
        where = host.group(1) if host and named else ""
        return Source(path, int(torchrun.group(2)), where, int(torchrun.group(1)))
    name = path.rsplit("/", 1)[-1]
    if slurm := _SLURM_TASK.search(name):
        return Source(path, int(slurm.group("task")), slurm.group("host"))
    rank = _RANK.search(name)
    return Source(path, int(rank.group(1)) if rank else None)


def _numbered(found: list[Source]) -> list[Source]:
    """Take the last number of a name as the rank where its neighbours count from 0."""
    families: dict[str, dict[int, int]] = {}
    for index, source in enumerate(found):
        number = _LAST_NUMBER.search(source.path) if source.rank is None else None
        if number:
            stem = source.path[: number.start()]
            families.setdefault(stem, {})[int(number.group(1))] = index
    for numbers in families.values():
        if len(numbers) > 1 and set(numbers) == set(range(len(numbers))):
            for rank, index in numbers.items():
                found[index] = Source(found[index].path, rank, found[index].host)
    return found


def _files(path: Path) -> Iterator[str]:
    if path.is_dir():
        yield from _walk(str(path))
    elif path.exists():
        yield str(path)
    else:
        raise LogNotFoundError(
            f"nothing is at {path}", hint="give log files or a directory of them"
        )


def _walk(top: str) -> Iterator[str]:
    refused: list[OSError] = []
    for folder, folders, names in os.walk(top, onerror=refused.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names, key=_by_number):
            file = Path(folder) / name
            # A pipe or device would be read for ever.
            if not name.startswith(".") and not _BINARY.search(name) and file.is_file():
                yield str(file)
    if refused:
        raise LogUnreadableError(
            f"cannot read {refused[0].filename}: {refused[0].strerror}",
            hint=f"ls -ld {refused[0].filename}",
        )


def _by_number(name: str) -> list[tuple[int, str]]:
    """Order as people count: rank_2 before rank_10."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
