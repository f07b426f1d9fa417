"""The incident bundle: one directory that holds all that is needed to replay a verdict.

    incident-1/
    ├── verdict.json        the verdict as it was made
    ├── snapshot.json       the snapshot it was made from
    ├── members.json        of a large job: the members of groups, not in snapshot.json
    ├── stacks/rank-2.txt   full stacks, for the ranks whose stacks were taken
    └── about.json          written by which unstuck, when, for which command

A bundle appears whole or not at all: it is written beside its place and renamed into it.
"""

import contextlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from unstuck._version import __version__
from unstuck.collect.members import Members, are_many, put_back, take_out
from unstuck.errors import (
    BundleDamagedError,
    BundleNotFoundError,
    BundleSchemaError,
    BundleWriteError,
)
from unstuck.files import whole_file
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import SCHEMA as VERDICT_SCHEMA
from unstuck.model.verdict import Verdict, VerdictFile

SCHEMA = "unstuck.incident/1"
FILES = ("verdict.json", "snapshot.json", "about.json")

_NAME = re.compile(r"incident-([0-9]{1,9})")
_MOST_BYTES = 2 << 30
"""Of one file; the snapshot of 100,000 ranks has some hundred megabytes."""
_T = TypeVar("_T")


class Incident(Struct, frozen=True):
    """A bundle that was read back."""

    path: Path
    snapshot: Snapshot
    verdict: Verdict | None
    about: dict[str, Any]


class _Labelled(Struct, frozen=True):
    schema: str = ""


def write(
    parent: Path, snapshot: Snapshot, verdict: Verdict | None, *, about: Mapping[str, Any]
) -> Path:
    """Store one incident as the next `incident-<n>` of `parent` and return its path.

    `about` may hold `command` and whatever else says which job this was; the schema, the
    versions and the time are added here.

    Example:
        write(Path("runs/7"), snapshot, verdict, about={"command": ["torchrun", "train.py"]})
    """
    try:
        parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=".incident-", dir=parent))
        try:
            _fill(unfinished, snapshot, verdict, about)
            return _rename_into_place(unfinished, parent)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    except OSError as error:
        raise BundleWriteError(
            f"could not store the incident in {parent}: {error.strerror or error}",
            hint=f"check the space and the permissions: df -h {parent}; ls -ld {parent}",
        ) from error


def read(path: Path) -> Incident:
    """Read an incident: its directory, a file inside it, or a run directory (newest incident).

    Raises:
        BundleNotFoundError: nothing is there, or no incident is inside.
        BundleDamagedError: a file is missing, cut short or does not hold what it should.
        BundleSchemaError: written with a schema this version does not know.
    """
    home = _find(path)
    _check_schema(home / "about.json", SCHEMA)
    _check_schema(home / "verdict.json", VERDICT_SCHEMA)
    return Incident(
        path=home,
        snapshot=_with_members(home, _load(home / "snapshot.json", Snapshot)),
        verdict=_load(home / "verdict.json", VerdictFile).verdict,
        about=_load(home / "about.json", dict[str, Any]),
    )


def is_at(path: Path) -> bool:
    """Tell whether a directory is an incident bundle or holds one, whole or not."""
    return any((path / name).exists() for name in FILES) or newest(path) is not None


def newest(parent: Path) -> Path | None:
    """Return the incident of `parent` with the highest number, or None."""
    return max(_incidents(parent), key=_number, default=None)


def all_in(parent: Path) -> list[Path]:
    """Return the incidents of `parent`, oldest first."""
    return sorted(_incidents(parent), key=_number)


def _fill(
    home: Path, snapshot: Snapshot, verdict: Verdict | None, about: Mapping[str, Any]
) -> None:
    facts = {
        **about,
        "schema": SCHEMA,
        "unstuck": __version__,
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    _put(home / "verdict.json", _indented(VerdictFile(verdict)))
    if are_many(snapshot):
        members, snapshot = take_out(snapshot)
        _put(home / "members.json", msgspec.json.encode(members) + b"\n")
    _put(home / "snapshot.json", _indented(snapshot))
    _put(home / "about.json", _indented(facts))
    stacks = home / "stacks"
    stacks.mkdir(mode=0o700)
    for state in snapshot.ranks:
        if state.threads:
            text = "\n\n".join(thread.rstrip() for thread in state.threads) + "\n"
            _put(stacks / f"rank-{state.rank}.txt", text.encode(errors="replace"))
    _flush(stacks)
    _flush(home)


def _with_members(home: Path, snapshot: Snapshot) -> Snapshot:
    path = home / "members.json"
    if not path.exists():
        return snapshot
    try:
        return put_back(_load(path, Members), snapshot)
    except ValueError as error:
        raise BundleDamagedError(
            f"{path} does not fit snapshot.json",
            hint="copy the bundle again from where it was written",
        ) from error


def _indented(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _put(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _flush(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _rename_into_place(unfinished: Path, parent: Path) -> Path:
    last = newest(parent)
    number = _number(last) + 1 if last else 1
    while True:
        place = parent / f"incident-{number}"
        # rename(2) replaces an empty directory but never a full one, so of two writers
        # that chose the same number one fails here and takes the next.
        try:
            unfinished.rename(place)
        except OSError:
            if not place.exists():
                raise
            number += 1
            continue
        _flush(parent)
        return place


def _incidents(parent: Path) -> Iterator[Path]:
    with contextlib.suppress(NotADirectoryError):
        yield from (p for p in parent.iterdir() if _NAME.fullmatch(p.name) and p.is_dir())


def _number(path: Path) -> int:
    return int(path.name.removeprefix("incident-"))


def _find(path: Path) -> Path:
    try:
        if path.is_file() and path.name in FILES:
            return path.parent
        if not path.exists():
            raise BundleNotFoundError(f"nothing is at {path}", hint=f"ls {path.parent}")
        if path.is_file():
            raise BundleDamagedError(
                f"{path} is not part of an incident bundle",
                hint="give the directory incident-<n>, or the run directory above it",
            )
        if any((path / name).exists() for name in FILES):
            return path
        latest = newest(path)
    except PermissionError as error:
        raise BundleDamagedError(
            f"{path} may not be read by this user", hint=f"ls -ld {path}"
        ) from error
    if latest is None:
        raise BundleNotFoundError(
            f"{path} is not an incident bundle and holds none",
            hint="a bundle is a directory incident-<n> with snapshot.json and verdict.json in it",
        )
    return latest


def _check_schema(path: Path, known: str) -> None:
    found = _load(path, _Labelled).schema
    if not found:
        raise BundleDamagedError(f"{path} does not say which schema it follows")
    if found != known:
        raise BundleSchemaError(
            f"{path} follows {found}; this unstuck ({__version__}) knows {known}",
            hint="read it with the version of unstuck that wrote it, or a newer one",
        )


def _load(path: Path, kind: type[_T]) -> _T:
    try:
        content = whole_file(path, _MOST_BYTES)
    except OSError as error:
        raise BundleDamagedError(
            f"{path} cannot be read: {(error.strerror or str(error)).lower()}",
            hint=f"ls -l {path.parent}",
        ) from error
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise BundleDamagedError(f"{path} does not hold what it should: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BundleDamagedError(
            f"{path} is cut short or is not JSON ({len(content)} bytes)",
            hint="copy the bundle again from where it was written",
        ) from error
