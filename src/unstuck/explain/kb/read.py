"""Where records come from: the built-in directory, users' directories, installed plug-ins.

A directory has one TOML file per record at `<domain>/<slug>.toml`. Users give theirs in
`UNSTUCK_KB` (separated as in PATH) or by `--kb`; a plug-in names a package with records:

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
from unstuck.files import whole_file

BUILT_IN = Path(__file__).parent / "records"
GROUP = "unstuck.records"
_MOST_BYTES = 4 << 20
VARIABLE = "UNSTUCK_KB"


def directories(extra: Sequence[Path] = (), environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Return all directories of records; where two have the same id, the later one wins.

    Raises:
        RecordError: a user's directory does not exist.
    """
    named = [Path(part) for part in environ.get(VARIABLE, "").split(os.pathsep) if part]
    for path in [*named, *extra]:
        if not path.is_dir():
            raise RecordError(
                f"there is no directory of records at {path}",
                hint=f"records are at DIR/<domain>/<slug>.toml; give DIR by --kb or {VARIABLE}",
            )
    return [BUILT_IN, *plug_ins(), *named, *extra]


def files(root: Path) -> list[Path]:
    """Return the files of records below a directory, in a stable order."""
    return sorted(path for path in root.rglob("*.toml") if path.is_file())


def read(path: Path) -> Record:
    """Read one record, strictly.

    Raises:
        RecordError: with the reason, without the path.
    """
    try:
        return msgspec.toml.decode(whole_file(path, _MOST_BYTES), type=Record)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(str(error)) from error
    except OSError as error:
        raise RecordError(f"cannot be read: {error.strerror}") from error


def expected_id(path: Path, root: Path) -> str:
    """Return the id that the record in this file must have."""
    return path.relative_to(root).with_suffix("").as_posix()


def plug_ins() -> list[Path]:
    """Return the directories that installed plug-ins name."""
    # Importing importlib.metadata takes longer than loading all records: only if it is needed.
    found = (f for place in sys.path for f in Path(place).glob("*.*-info/entry_points.txt"))
    if not any(GROUP in file.read_text(errors="replace") for file in found):
        return []
    from importlib.metadata import entry_points

    return [path for entry in entry_points(group=GROUP) for path in _package(entry.value)]


def _package(name: str) -> Iterator[Path]:
    from importlib.util import find_spec

    try:
        spec = find_spec(name)
    except ImportError:
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise RecordError(
            f"the plug-in {name} is installed but is not a package",
            hint=f"its entry point in {GROUP} must name a package directory with records",
        )
    yield from (Path(place) for place in spec.submodule_search_locations)
