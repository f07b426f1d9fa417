"""What must be said of each program: `tests/programs/expected.toml`, read once."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PROGRAMS = Path(__file__).parent.parent / "programs"
FAULT_RANK = 2


@dataclass(frozen=True)
class Expectation:
    """What is right for one program; no causes means that there must be no verdict."""

    program: str
    causes: tuple[str, ...]
    goal: float = 5.0
    place: Literal["line", "file", "nothing"] = "line"

    @property
    def path(self) -> Path:
        """Give the script's path."""
        return PROGRAMS / f"{self.program}.py"

    def fault_lines(self) -> set[int]:
        """Give the numbers of the lines that the program itself marks `# fault`."""
        lines = self.path.read_text().splitlines()
        return {number for number, line in enumerate(lines, 1) if "# fault" in line}


def load() -> list[Expectation]:
    """Read all expectations in the order of the file."""
    table = tomllib.loads((PROGRAMS / "expected.toml").read_text())
    return [Expectation(name, tuple(entry.pop("causes")), **entry) for name, entry in table.items()]


def faulty() -> list[Expectation]:
    """Give the programs that must lead to a verdict."""
    return [each for each in load() if each.causes]


def healthy() -> list[Expectation]:
    """Give the programs that must not."""
    return [each for each in load() if not each.causes]
