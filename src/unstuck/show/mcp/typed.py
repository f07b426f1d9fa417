"""The typed answers. Their fields are a public surface: they may grow, none is renamed."""

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """Base of all of them; the texts below the fields become the descriptions in the schema."""

    model_config = ConfigDict(use_attribute_docstrings=True, frozen=True)


class Page(Answer):
    """One part of a list."""

    next_cursor: str = ""
    """Pass it as `cursor` to get what follows; empty at the end."""
    total: int = 0


class RunBrief(Answer):
    """One run."""

    run: str
    """The run directory; pass it as `run` to other tools."""
    running: bool
    state: str
    """starting, running, slow, stalled, ended or unwatched."""
    headline: str
    incidents: int
    command: str = ""


class Runs(Page):
    """Runs, those that are running first, then the newest."""

    runs: list[RunBrief]


class IncidentBrief(Answer):
    """One stored incident."""

    incident: str
    """Its directory; pass it as `incident` to other tools."""
    at: str
    cause: str
    """Empty for a dump that somebody asked for while nothing was wrong."""
    confidence: str = ""
    culprits: list[int] = []
    summary: str


class Incidents(Page):
    """Incidents, the newest first."""

    incidents: list[IncidentBrief]


class CulpritBrief(Answer):
    """One rank that holds up the job."""

    rank: int
    host: str
    doing: str
    """Reads on after "rank 2": `is asleep in time.sleep`."""
    file: str = ""
    line: int = 0
    function: str = ""
    code: str = ""
    """The source line: what to look at, and often what to change."""
    pid: int = 0
    seconds: float = 0.0


class Waiting(Answer):
    """The operation that the other ranks wait in."""

    ranks: str
    operation: str
    number: int
    group: str
    group_size: int


class OtherCause(Answer):
    """Another cause that would look the same, and what would decide."""

    cause: str
    decide_by: str


class VerdictBrief(Answer):
    """Which rank, why, what to do, what not to try."""

    cause: str
    confidence: str
    """certain, likely or possible."""
    because: str
    summary: str
    culprits: list[CulpritBrief]
    """Empty where nobody can be blamed."""
    culprits_left_out: int = 0
    waiting: Waiting | None = None
    since: str
    stalled_seconds: float = 0.0
    slowdown: float = 0.0
    """How many times longer a step takes; 0 for a job that stands."""
    do: list[str]
    dont: list[str]
    alternatives: list[OtherCause]
    records: list[str]
    """Knowledge-base ids: search_knowledge shows them."""
    evidence: int
    """How many observations get_evidence returns."""


class JobVerdict(Answer):
    """The state of a run, and its verdict if there is one."""

    run: str
    state: str
    headline: str
    incident: str = ""
    verdict: VerdictBrief | None = None
    """null: nothing is known to be wrong."""


class EvidenceItem(Answer):
    """One observation that the verdict rests on."""

    source: str
    text: str
    role: str
    """root, victim, cascade or context."""
    file: str = ""
    line: int = 0


class EvidenceItems(Page):
    """What the verdict rests on."""

    cause: str
    chain: list[str]
    """Who waits for whom, from the victims to the culprit."""
    items: list[EvidenceItem]


class RankStack(Answer):
    """The stacks of one rank."""

    rank: int
    host: str
    age_seconds: float
    """How long ago it was taken; -1 if none could be taken."""
    lines: list[str]
    """All threads, the main thread among them; innermost frame first."""
    lines_left_out: int = 0


class Stacks(Page):
    """Stacks of several ranks."""

    taken: str
    """`live`, or the incident they were stored in."""
    stacks: list[RankStack]


class UnknownLine(Answer):
    """A line that looks like a failure and is in no record."""

    text: str
    file: str
    line: int
    count: int


class LogVerdict(Answer):
    """What went wrong, from logs alone."""

    verdict: VerdictBrief | None
    """null: no distributed failure was found."""
    evidence: list[EvidenceItem]
    unknown: list[UnknownLine]
    notes: list[str]
    lines_read: int


class CauseBrief(Answer):
    """One cause that a message can have."""

    cause: str
    evidence: str


class RecordBrief(Answer):
    """What is known about one failure message."""

    id: str
    title: str
    signature: str
    role: str
    """root, cascade, either, diagnostic or harmless."""
    tier: str
    """measured, reproduced, reported or unverified."""
    meaning: str
    causes: list[CauseBrief]
    do: list[str]
    dont: list[str]


class Records(Page):
    """Records, the best match first."""

    records: list[RecordBrief]
