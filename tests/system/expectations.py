"""What must be said of each program: `expected.toml` beside the lab's programs, read once."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from _pytest.mark import ParameterSet

from unstuck.lab.job import PROGRAMS

FAULT_RANK = 2
# One of each kind, for the half hour that all tests may take; `unstuck lab run` has them all.
EVERYDAY = frozenset(
    {
        "ddp_sleep", "gil_sleep", "sigterm_pending", "lock", "dataloader", "subgroup",
        "fsdp2", "sections", "mismatch", "sigstop", "sigkill", "exception", "exit0",
        "order_inversion", "skipped", "new_group_some", "fewer_batches", "never_joined",
        "store_lost", "wrong_shape", "two_faults", "mesh", "timeout_too_short",
        "monitored_barrier", "segfault", "healthy",
        "rank_by_rank", "checkpoints", "helpers", "long_first_step", "pipeline",
    }
)  # fmt: skip

# Their groups are made for four; three ranks, a culprit and a majority, are enough for the others.
FOUR = frozenset({"two_faults", "subgroup", "order_inversion", "skipped", "new_group_some"})


@dataclass(frozen=True)
class Expectation:
    """What is right for one program; no causes means that there must be no verdict."""

    program: str
    causes: tuple[str, ...]
    goal: float = 5.0
    place: Literal["line", "file", "nothing"] = "line"
    kind: Literal["hang", "held", "works", "death", "slow"] = "hang"
    named: float = 5.0
    """Seconds to the notice, of the kinds `held` and `works`."""
    culprits: tuple[int, ...] = (FAULT_RANK,)
    """The ranks that must be named."""
    beside: tuple[int, ...] = ()
    """Ranks that may be named as well."""
    ranks: int = 4
    torchrun: tuple[str, ...] = ()
    alone: bool = False
    """For the lab: no job beside it."""
    why: str = ""
    """Why more than one cause is right."""

    @property
    def options(self) -> tuple[str, ...]:
        """Give the options of `unstuck run`: nobody waits a minute here for a verdict."""
        return ("--patience", "3s") if self.kind == "held" else ()

    @property
    def path(self) -> Path:
        """Give the script's path."""
        return PROGRAMS / f"{self.program}.py"

    @property
    def fewest(self) -> int:
        """Give how many ranks show the fault; each costs two seconds of a core to start."""
        return self.ranks if self.program in FOUR else {4: 3}.get(self.ranks, self.ranks)

    def fault_lines(self) -> set[int]:
        """Give the numbers of the lines that the program itself marks `# fault`."""
        lines = self.path.read_text().splitlines()
        return {number for number, line in enumerate(lines, 1) if "# fault" in line}


def load() -> list[Expectation]:
    """Read all expectations in the order of the file."""
    table = tomllib.loads((PROGRAMS / "expected.toml").read_text())
    return [Expectation(name, **_frozen(entry)) for name, entry in table.items()]


def _frozen(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}


def faulty() -> list[Expectation]:
    """Give the programs that must lead to a verdict."""
    return [each for each in load() if each.causes]


def healthy() -> list[Expectation]:
    """Give the programs that must not."""
    return [each for each in load() if not each.causes and each.kind != "works"]


def cases(expectations: list[Expectation]) -> list[ParameterSet]:
    """Give one test case each.

    All of them take most of an hour: that is what `unstuck lab run` is for. Here run those of
    which each stands for a way of its own to see, to judge or to be mistaken.
    """
    everyday = [each for each in expectations if each.program in EVERYDAY]
    return [pytest.param(each, id=each.program) for each in everyday]
