"""Find and read the dumps that PyTorch's flight recorder left on disk.

Known: format 2.x (torch 2.5 to 2.13), of gloo and NCCL, as JSON (`fr_trace_json` of the debug
server, `_dump_fr_trace_json`, `_dump_nccl_trace_json`) and as pickle (`_dump_fr_trace`, and the
files that TORCH_NCCL_DEBUG_INFO_TEMP_FILE and TORCH_FR_DUMP_TEMP_FILE name: prefix and rank).
A dump does not say which rank wrote it: the last number of its file's name does.
"""

import errno
import re
import stat
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from unstuck.errors import DumpDamagedError, DumpError
from unstuck.files import whole_file
from unstuck.observe.dumps.unpickle import loads

MOST_BYTES = 256 << 20
"""Of one file. 2,000 entries with stacks need half a megabyte."""
_LAST_NUMBER = re.compile(r"(?<!\d)(\d{1,7})(?=\D*$)")
_ERROR_FILES = ("error*.json", "*/error*.json", "*/*/error*.json", "*/*/*/error*.json")
_MOST_ERROR_FILES = 64
_LONGEST_ERROR = 1 << 20
_ENDINGS = ("", ".json", ".pickle", ".pkl", ".bin", ".dump", ".trace")

Number = Annotated[int, Meta(ge=-(2**31), le=2**62)]
"""Any count, size or time in nanoseconds that makes sense."""


class Frame(Struct, frozen=True):
    """One line of the stack from which an operation was issued."""

    name: str = ""
    filename: str = ""
    line: Number = 0


class Entry(Struct, frozen=True):
    """One operation as the recorder wrote it; fields that a version lacks keep the default."""

    process_group: str | tuple[str, ...] = ""
    profiling_name: str = ""
    pg_id: Number = 0
    record_id: Number = 0
    collective_seq_id: Number = 0
    p2p_seq_id: Number = 0
    op_id: Number = 0
    is_p2p: bool | None = None
    state: str = ""
    retired: bool = False
    time_created_ns: Number = 0
    time_discovered_started_ns: Number | None = None
    time_discovered_completed_ns: Number | None = None
    timeout_ms: Number = 0
    input_sizes: tuple[tuple[Number, ...], ...] = ()
    input_dtypes: tuple[str, ...] = ()
    frames: tuple[Frame, ...] = ()

    @property
    def group(self) -> str:
        """The name of the process group."""
        one = self.process_group
        return one if isinstance(one, str) else "".join(one[:1])

    @property
    def description(self) -> str:
        """What the process group is for, as its maker called it."""
        one = self.process_group
        return "" if isinstance(one, str) else "".join(one[1:2])

    @property
    def backend(self) -> str:
        """`gloo`, `nccl` or whatever precedes the colon."""
        return self.profiling_name.partition(":")[0] if ":" in self.profiling_name else ""

    @property
    def op(self) -> str:
        """The operation without its backend and without the ranks of a send or receive."""
        return self.profiling_name.rpartition(":")[2].partition(" ")[0]


class Content(Struct, frozen=True):
    """What one file holds, of any 2.x."""

    version: str
    pg_config: dict[str, dict[str, Any]] = {}
    pg_status: dict[str, dict[str, Number]] = {}
    entries: tuple[Entry, ...] = ()


class Dump(Struct, frozen=True):
    """The dump of one rank and where it was read."""

    rank: int
    path: Path
    content: Content

    @property
    def last_stamp(self) -> float:
        """Unix time of the newest event in it; 0 without any."""
        stamps = (
            max(
                one.time_created_ns,
                one.time_discovered_started_ns or 0,
                one.time_discovered_completed_ns or 0,
            )
            for one in self.content.entries
        )
        return max(stamps, default=0) / 1e9


class Reading(Struct, frozen=True):
    """All dumps that could be read, and why others could not."""

    dumps: tuple[Dump, ...]
    problems: tuple[tuple[Path, str], ...] = ()
    refused: frozenset[int] = frozenset()
    """Ranks whose only file could not be read."""


class _ErrorDetails(Struct, frozen=True):
    message: str = ""


class _ErrorFile(Struct, frozen=True):
    """torchrun writes {"message": {"message": text, "extraInfo": ...}} or {"message": text}."""

    message: str | _ErrorDetails = ""


class _Foreign(DumpDamagedError):
    """JSON or a pickle of something else, ignored among dumps."""


def find(paths: Iterable[Path]) -> list[Path]:
    """List the files that may be dumps: those given, and those in the directories given.

    A directory without any may hold one directory a node.
    """
    found: list[Path] = []
    for path in paths:
        try:
            if not path.is_dir():
                found.append(path)
                continue
            inside = _inside(path)
            if not inside:
                inside = [one for home in sorted(path.iterdir()) for one in _inside(home)]
        except OSError as error:
            raise DumpError(f"{path} cannot be read: {error.strerror}") from error
        found += inside
    return found


def _inside(path: Path) -> list[Path]:
    if not path.is_dir():
        return []
    return [one for one in sorted(path.iterdir(), key=_by_number) if looks_like_dump(one)]


def looks_like_dump(path: Path) -> bool:
    """Tell by name and first byte whether a file may be a dump: JSON object or pickle."""
    if not _LAST_NUMBER.search(path.stem) or path.suffix not in _ENDINGS or not path.is_file():
        # A prefix may hold dots: `trace.rank_3` has no suffix that means anything.
        return path.is_file() and bool(re.search(r"\d$", path.name)) and _begins_well(path)
    return _begins_well(path)


def read(paths: Iterable[Path]) -> Reading:
    """Read every dump there is; files that cannot be read are listed, not fatal.

    Example:
        read([Path("traces")]).dumps

    Raises:
        DumpError: none could be read. If there was one file only, its own error.
    """
    dumps: list[Dump] = []
    errors: dict[Path, DumpError] = {}
    files = find(paths)
    for path in files:
        try:
            dumps.append(read_file(path))
        except DumpError as error:
            errors[path] = error
    if dumps:
        errors = {path: error for path, error in errors.items() if not isinstance(error, _Foreign)}
    if not dumps:
        raise _nothing_read(errors)
    lost = {rank for path in errors if (rank := rank_of(path)) is not None}
    return Reading(
        dumps=tuple(dumps),
        problems=tuple((path, error.message) for path, error in errors.items()),
        refused=frozenset(lost - {dump.rank for dump in dumps}),
    )


def read_file(path: Path) -> Dump:
    """Read one dump.

    Raises:
        DumpDamagedError: it is cut short, too large, or of a format that is not known.
        DumpUnsafeError: it is a pickle that would run code.
    """
    rank = rank_of(path)
    if rank is None:
        raise DumpDamagedError(
            f"{path.name} does not say which rank wrote it",
            hint="end its name with the rank, as PyTorch does: trace_3 or trace_3.json",
        )
    try:
        data = whole_file(path, MOST_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise DumpDamagedError(f"{path.name} is larger than {MOST_BYTES >> 20} MB") from error
        raise DumpDamagedError(f"{path.name} cannot be read: {error.strerror}") from error
    return Dump(rank, path, _content(path.name, data))


def rank_of(path: Path) -> int | None:
    """Read the rank from a file's name: its last number.

    Example:
        >>> rank_of(Path("nccl_trace_rank_12")), rank_of(Path("fr2.rank3.json"))
        (12, 3)
    """
    found = _LAST_NUMBER.search(path.name)
    return int(found.group(1)) if found else None


def _content(name: str, data: bytes) -> Content:
    try:
        if data.lstrip()[:1] == b"{":
            content = msgspec.json.decode(data, type=Content, strict=False)
        else:
            content = msgspec.convert(loads(data), Content, strict=False)
    except DumpError as error:
        raise type(error)(f"{name} {error.message}", hint=error.hint) from error
    except msgspec.ValidationError as error:
        # A wrong type further down is damage; without a version it is another kind of file.
        kind = DumpDamagedError if " - at " in str(error) else _Foreign
        raise kind(f"{name} is not a flight-recorder dump: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DumpDamagedError(f"{name} is cut short or damaged ({len(data)} bytes)") from error
    if content.version.partition(".")[0] != "2":
        raise DumpDamagedError(
            f"{name} follows version {content.version[:20]} of the dump format; 2.x is known"
        )
    return content


def _nothing_read(errors: dict[Path, DumpError]) -> DumpError:
    if len(errors) == 1:
        return next(iter(errors.values()))
    if not errors:
        return DumpError(
            "there is no flight-recorder dump here",
            hint="PyTorch names them by rank: trace_0, trace_1, ... or rank0.json",
        )
    kinds = {type(error) for error in errors.values()}
    reasons = "; ".join(error.message for error in list(errors.values())[:3])
    kind = kinds.pop() if len(kinds) == 1 else DumpError
    return kind(f"none of {len(errors)} files can be read: {reasons}")


def _begins_well(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            first = file.read(64).lstrip()[:1]
    except OSError:
        return True
    # Every pickle since protocol 2 begins with 0x80; older ones are read to be refused.
    return first in (b"{", b"\x80", b"", b"c", b"(", b"}")


def _by_number(path: Path) -> tuple[int, str]:
    rank = rank_of(path)
    return (-1 if rank is None else rank, path.name)


def error_files(homes: Iterable[Path]) -> Iterator[tuple[Path, str, str]]:
    """Find torchrun's error files below directories: each with its place and first line."""
    for home in sorted(homes):
        # What lies elsewhere in a shared temporary directory was not written by this job.
        if home.stat().st_mode & stat.S_IWOTH:
            continue
        files = (file for pattern in _ERROR_FILES for file in home.glob(pattern))
        for file in sorted(islice(files, _MOST_ERROR_FILES)):
            if text := _error_text(file):
                yield file, str(file.relative_to(home)), text


def _error_text(file: Path) -> str:
    """Return the first line of the message in torchrun's error file; empty where there is none."""
    try:
        content = whole_file(file, _LONGEST_ERROR)
        message = msgspec.json.decode(content, type=_ErrorFile).message
    except (OSError, ValueError, RecursionError):
        return ""
    lines = (message if isinstance(message, str) else message.message).strip().splitlines()
    return lines[0][:300] if lines else ""
