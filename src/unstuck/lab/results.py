"""The runs of a session, kept in a file as they come, so that a long session can go on later."""

import os
from pathlib import Path

import msgspec

from unstuck.errors import LabError
from unstuck.lab.run import Run


class Results:
    """All runs so far; with a file, also those of the sessions that wrote to it before.

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
        """All of them; where one was made again, the later one."""
        return list(self._made.values())

    def add(self, run: Run) -> None:
        """Take a run in; it is in the file before the next one begins."""
        self._made |= _by_number([run])
        if self._file is not None:
            with self._file.open("ab") as file:
                file.write(msgspec.json.encode(run) + b"\n")

    def has(self, scenario: str, number: int) -> bool:
        """Tell whether this run was made already, or cannot be made on this machine.

        One that had trouble of its own measured nothing: the next session makes it again.
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
            f"{file} does not hold the runs of a lab: {error}",
            hint="name a new file, or one that an earlier --results wrote",
        ) from error
    return runs


def _drop(file: Path, torn: bytes, before: int) -> None:
    """Cut off the half line that a killed session left: its run is made again."""
    begin = b'{"scenario":'
    if not torn.startswith(begin[: len(torn)]):
        raise msgspec.DecodeError("its end is not the beginning of a run")
    os.truncate(file, before)
