"""The result of one run of a scenario: facts only, no judgement."""

from msgspec import Struct


class Blamed(Struct, frozen=True):
    """A rank that the verdict blames."""

    rank: int
    host: str


class Run(Struct, frozen=True, omit_defaults=True):
    """One run, as judged by `score` and printed by `--json`."""

    scenario: str
    number: int
    cause: str | None = None
    culprits: tuple[Blamed, ...] = ()
    seconds: float | None = None
    """From the onset of the fault to the verdict; negative if the verdict was earlier."""
    alternatives: tuple[str, ...] = ()
    summary: str = ""
    """The verdict's own sentence."""
    cut: tuple[str, ...] = ()
    """The hosts at both ends of the connections that the verdict calls cut."""
    after: str | None = None
    """The cause in the last verdict after the fault was undone."""
    after_hosts: tuple[str, ...] = ()
    """The hosts that this verdict blames."""
    exit_code: int | None = None
    watched: float = 0.0
    """Seconds for which the job was watched."""
    proof: str = ""
    """How the fault is known to have taken effect; a run without proof does not count."""
    count: int = 0
    """How often the fault was seen to act: signals, dropped packets, kills."""
    trouble: str = ""
    """Why the run says nothing about unstuck: the fault or the job itself did not work."""
    skipped: str = ""
    """Why it could not be run here."""
    folder: str = ""
    """Where its files are, if kept."""
    named: float | None = None
    """From the onset to the first notice or verdict."""
    noticed: tuple[int, ...] = ()
    """The ranks that notices named."""
    notices: int = 0
