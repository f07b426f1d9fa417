"""What one run of a scenario gave: only facts, no judgement."""

from msgspec import Struct


class Blamed(Struct, frozen=True):
    """One rank that the verdict accuses."""

    rank: int
    host: str


class Run(Struct, frozen=True, omit_defaults=True):
    """One run, as it is judged by `score` and printed by `--json`."""

    scenario: str
    number: int
    cause: str | None = None
    culprits: tuple[Blamed, ...] = ()
    seconds: float | None = None
    """From the onset of the fault to the verdict; below zero if it came before the fault."""
    alternatives: tuple[str, ...] = ()
    summary: str = ""
    """The verdict's own sentence."""
    cut: tuple[str, ...] = ()
    """The hosts at either end of the ways that the verdict calls cut."""
    after: str | None = None
    """The cause in the last verdict after the fault was taken back."""
    after_hosts: tuple[str, ...] = ()
    """The hosts that this verdict blames."""
    exit_code: int | None = None
    watched: float = 0.0
    """Seconds for which the job was watched."""
    proof: str = ""
    """How it is known that the fault took effect; a run without proof does not count."""
    count: int = 0
    """How often the fault was seen to act: signals, dropped packets, kills."""
    trouble: str = ""
    """Why the run says nothing about unstuck: the fault or the job itself did not work."""
    skipped: str = ""
    """Why it could not be run here."""
    folder: str = ""
    """Where its files are, if they were kept."""
