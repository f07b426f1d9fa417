"""The runs of a session, saved as they are made, so that a long session can be continued."""

import os
from pathlib import Path

import msgspec

from unstuck.errors import LabError
from unstuck.lab.run import Run


class Results:
    """All runs so far; with a file, also those of earlier sessions that wrote to it.

    Example:
        >>> results = Results()
        >>> results.add(Run("sigkill", 1))
        >>> results.has("sigkill", 1)
        True
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._made = _by_number(_read(file)) if file else {}
        self.taken_over = len(self._made)

    @property
    def runs(self) -> list[Run]:
        """All runs; where one was repeated, the later one."""
        return list(self._made.values())

    def add(self, run: Run) -> None:
        """Add a run; it is in the file before the next one begins."""
        self._made |= _by_number([run])
        if self._file is not None:
            with self._file.open("ab") as file:
                file.write(msgspec.json.encode(run) + b"\n")

    def has(self, scenario: str, number: int) -> bool:
        """Tell whether this run has been made, or cannot be made on this machine.

        A run that failed for reasons of its own measured nothing: the next session repeats it.
        """
        own = [run for run in self.runs if run.scenario == scenario]
        return any((run.number == number and not run.trouble) or run.skipped for run in own)


def _by_number(runs: list[Run]) -> dict[tuple[str, int], Run]:
    return {(run.scenario, run.number): run for run in runs}


def _read(file: Path) -> list[Run]:
    try:
        text = file.read_bytes() if file.exists() else b""
        *lines, torn = text.split(b"\n")
        runs = [msgspec.json.decode(line, type=Run) for line in lines]
        if torn:
            _drop(file, torn, len(text) - len(torn))
    except OSError as error:
        raise LabError(f"cannot use {file}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise LabError(
            f"{file} does not contain runs of the lab: {error}",
            hint="name a new file, or one that an earlier --results wrote",
        ) from error
    return runs


def _drop(file: Path, torn: bytes, before: int) -> None:
    """Remove the incomplete line that a killed session left: its run is repeated."""
    begin = b'{"scenario":'
    if not torn.startswith(begin[: len(torn)]):
        raise msgspec.DecodeError("it does not end with a run")
    os.truncate(file, before)
