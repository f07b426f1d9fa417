"""Control groups into which faults move ranks: versions 1 and 2; freezer, cpu and memory.

A group is created below that of this process, so that it does not escape any limit of the
machine; where version 2 does not allow that (children of a group that has processes get no
controllers), at the root.
"""

import contextlib
import functools
import itertools
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, Self

from unstuck.errors import LabError
from unstuck.lab import owner

Controller = Literal["freezer", "cpu", "memory"]
PREFIX = "unstuck-lab-"
_MOUNTS = Path("/proc/self/mounts")
_OWN = Path("/proc/self/cgroup")
_NEEDS = {"freezer": "cgroup.freeze", "cpu": "cpu.max", "memory": "memory.max"}
_numbers = itertools.count()


@functools.cache
def why_not(controller: Controller) -> str:
    """Explain why no group with this controller can be created here; empty when one can.

    Example:
        >>> why_not("freezer")
        ''
    """
    try:
        with Cgroup(controller):
            return ""
    except LabError as error:
        return error.message


class Cgroup:
    """A control group of the lab; processes that are still in it at the end are moved back.

    Example:
        with Cgroup("freezer") as group:
            group.add(pid)
            group.write("cgroup.freeze", "1")
    """

    def __init__(self, controller: Controller) -> None:
        name = f"{PREFIX}{owner.tag()}-{next(_numbers)}"
        self.path, self.version = _make(controller, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, pid: int) -> None:
        """Move a process, with all its threads, into the group."""
        self.write("cgroup.procs", str(pid))

    def command(self, argv: Sequence[str]) -> list[str]:
        """Wrap `argv` so that it runs in the group from the start, with the same pid."""
        join = 'echo $$ > "$0"; exec "$@"'
        return ["sh", "-c", join, str(self.path / "cgroup.procs"), *argv]

    def write(self, file: str, text: str) -> None:
        """Write one of the group's files."""
        (self.path / file).write_text(text)

    def read(self, file: str) -> str:
        """Read one of the group's files."""
        return (self.path / file).read_text()

    def count(self, file: str, key: str) -> int:
        """Read a number from a file with a key and a number on each line."""
        for line in self.read(file).splitlines():
            name, _, value = line.partition(" ")
            if name == key:
                return int(value)
        return 0

    def close(self) -> None:
        """Thaw the group, move its processes out and remove it; may be called twice."""
        _release(self.path)


def _make(controller: Controller, name: str) -> tuple[Path, int]:
    reasons: list[str] = []
    for parent, version in _parents(controller):
        path = parent / name
        try:
            path.mkdir()
        except OSError as error:
            reasons.append(f"{parent}: {(error.strerror or str(error)).lower()}")
            continue
        if version == 1 or (path / _NEEDS[controller]).exists():
            return path, version
        path.rmdir()
        reasons.append(f"{parent}: its children have no {controller} controller")
    raise LabError(
        f"no control group with {controller} can be created: "
        + ("; ".join(reasons) or "no cgroup file system is mounted")
    )


def _parents(controller: Controller) -> Iterator[tuple[Path, int]]:
    """Return the folders below which a group may be created, best first, with the version."""
    own: dict[str, str] = {}
    for line in _OWN.read_text().splitlines():
        _, names, path = line.split(":", 2)
        own |= dict.fromkeys(names.split(","), path)
    for mount, kind, options in _mounts():
        if kind == "cgroup" and controller in options:
            yield mount / own.get(controller, "/").lstrip("/"), 1
    for mount, kind, _ in _mounts():
        if kind == "cgroup2":
            yield mount / own.get("", "/").lstrip("/"), 2
            yield mount, 2


def _mounts() -> Iterator[tuple[Path, str, list[str]]]:
    for line in _MOUNTS.read_text().splitlines():
        _, where, kind, options, *_ = line.split()
        yield Path(where), kind, options.split(",")


def _release(path: Path) -> None:
    for file, word in (("cgroup.freeze", "0"), ("freezer.state", "THAWED")):
        with contextlib.suppress(OSError):
            if (path / file).exists():
                (path / file).write_text(word)
    deadline = time.monotonic() + 5
    while path.exists() and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            for pid in (path / "cgroup.procs").read_text().split():
                with contextlib.suppress(OSError):
                    (path.parent / "cgroup.procs").write_text(pid)
        with contextlib.suppress(OSError):
            path.rmdir()
            return
        time.sleep(0.05)


def sweep() -> list[str]:
    """Remove the groups of processes that were killed before they could; return their names."""
    left: list[Path] = []
    for mount, kind, _ in _mounts():
        if kind in ("cgroup", "cgroup2"):
            left += [p for p in _ours(mount) if not owner.alive(p.name.removeprefix(PREFIX))]
    for path in left:
        _release(path)
    return [path.name for path in left]


def _ours(mount: Path) -> Iterator[Path]:
    own = {mount / line.split(":", 2)[2].lstrip("/") for line in _OWN.read_text().splitlines()}
    for parent in {mount, *own}:
        with contextlib.suppress(OSError):
            yield from parent.glob(f"{PREFIX}*")
