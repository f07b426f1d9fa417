"""Where records come from: our own directory, users' directories, installed plug-ins.

A directory holds one TOML file a record at `<domain>/<slug>.toml`. Users name theirs in
`UNSTUCK_KB` (a path list) or by a flag; a plug-in names a package that is such a directory:

    [project.entry-points."unstuck.records"]
    acme = "acme_unstuck.records"
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from unstuck.errors import RecordError
from unstuck.explain.kb.schema import Record

BUILT_IN = Path(__file__).parent / "records"
GROUP = "unstuck.records"
VARIABLE = "UNSTUCK_KB"


def directories(extra: Sequence[Path] = (), environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Return all directories of records; where two have the same id, the later one wins.

    Raises:
        RecordError: a user's directory is not there.
    """
    named = [Path(part) for part in environ.get(VARIABLE, "").split(os.pathsep) if part]
    for path in [*named, *extra]:
        if not path.is_dir():
            raise RecordError(
                f"there is no directory of records at {path}",
                hint=f"records lie in DIR/<domain>/<slug>.toml; named by {VARIABLE} or a flag",
            )
    return [BUILT_IN, *plug_ins(), *named, *extra]


def files(root: Path) -> list[Path]:
    """Return the files of records below a directory, in a stable order."""
    found = [
        Path(folder) / name
        for folder, _, names in os.walk(root)
        for name in names
        if name.endswith(".toml")
    ]
    return sorted(found)


def read(path: Path) -> Record:
    """Read one record, strictly.

    Raises:
        RecordError: with the reason, without the path.
    """
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Record)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordError(str(error)) from error
    except OSError as error:
        raise RecordError(f"cannot be read: {error.strerror}") from error


def expected_id(path: Path, root: Path) -> str:
    """Return the id that the record in this file must have."""
    return path.relative_to(root).with_suffix("").as_posix()


def plug_ins() -> list[Path]:
    """Return the directories that installed plug-ins name."""
    # importlib.metadata takes longer to load than all records: only where it finds something.
    if not any(_mentions_group(entry) for entry in sys.path):
        return []
    from importlib.metadata import entry_points

    return [path for entry in entry_points(group=GROUP) for path in _package(entry.value)]


def _mentions_group(entry: str) -> bool:
    try:
        names = os.listdir(entry or ".")  # noqa: PTH208
    except OSError:
        return False
    return any(
        _contains_group(os.path.join(entry, name, "entry_points.txt"))  # noqa: PTH118
        for name in names
        if name.endswith((".dist-info", ".egg-info"))
    )


def _contains_group(path: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return GROUP.encode() in file.read()
    except OSError:
        return False


def _package(name: str) -> Iterator[Path]:
    from importlib.util import find_spec

    try:
        spec = find_spec(name)
    except ImportError:
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise RecordError(
            f"the plug-in {name} is installed but is no package",
            hint=f"its entry point in {GROUP} must name a package directory with records",
        )
    yield from (Path(place) for place in spec.submodule_search_locations)
