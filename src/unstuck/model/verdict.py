"""The answer: which rank, why, since when, how it is known, what to do and what not to try."""

from enum import StrEnum

from msgspec import Struct

from unstuck.model.doing import Activity

SCHEMA = "unstuck.verdict/1"


class Cause(StrEnum):
    """The closed vocabulary of causes."""

    NETWORK_PARTITION = "network-partition"
    NODE_FAILURE = "node-failure"
    PROCESS_CRASH = "process-crash"
    OUT_OF_MEMORY = "out-of-memory"
    PROCESS_STOPPED = "process-stopped"
    STRAGGLER = "straggler"
    RESOURCE_CONTENTION = "resource-contention"
    COLLECTIVE_MISMATCH = "collective-mismatch"
    ORDER_INVERSION = "order-inversion"
    UNEVEN_WORK = "uneven-work"
    RANK_LEFT_EARLY = "rank-left-early"
    BUSY_ELSEWHERE = "busy-elsewhere"
    HOST_DEADLOCK = "host-deadlock"
    NEVER_JOINED = "never-joined"
    STORE_LOST = "store-lost"
    TRANSPORT_STALL = "transport-stall"
    NETWORK_MISCONFIGURATION = "network-misconfiguration"
    HARDWARE_FAULT = "hardware-fault"
    SOFTWARE_BUG = "software-bug"
    TIMEOUT_TOO_SHORT = "timeout-too-short"
    UNKNOWN = "unknown"


class Confidence(StrEnum):
    """How sure, in words; `Verdict.because` says why."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


class Basis(StrEnum):
    """What allowed the verdict; `Verdict.because` says it in words."""

    PROOF = "proof"
    """It cannot resolve itself."""
    TIME = "time"
    """Too long without any sign of life."""
    ASKED = "asked"
    """As long as the user wanted to wait: a patience or the deadline of a section."""


class Culprit(Struct, frozen=True, omit_defaults=True):
    """One rank to blame and what it is doing instead."""

    rank: int
    host: str
    doing: str
    """One phrase that reads on after "rank 2": `is asleep in time.sleep`."""
    pid: int = 0
    file: str = ""
    line: int = 0
    function: str = ""
    code: str = ""
    """The source line, where it could be read."""
    seconds: float = 0.0
    """For how long."""
    cause: Cause | None = None
    """Of this rank, where it is another fault than the verdict's own cause."""
    kind: str = ""
    """The kind of `activity`: `asleep`."""
    activity: Activity | None = None
    """What `doing` says, as a value; None in what an older unstuck wrote."""


class StuckOperation(Struct, frozen=True, omit_defaults=True):
    """The collective, send or receive that the victims wait in."""

    op: str
    number: int
    group: str
    group_size: int
    description: str = ""
    sizes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    waiting: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()


class Role(StrEnum):
    """What an observation shows."""

    ROOT = "root"
    """The fault itself."""
    VICTIM = "victim"
    """A rank that waits because of it."""
    CASCADE = "cascade"
    """A failure that followed from it."""
    CONTEXT = "context"


class Evidence(Struct, frozen=True):
    """One observation the verdict rests on."""

    source: str
    """Where it was seen: `rank 2: /proc`, `rank 0: flight recorder`, or a file's name."""
    text: str
    role: Role = Role.CONTEXT
    file: str = ""
    line: int = 0


class Alternative(Struct, frozen=True):
    """Another cause that would look the same from here, and what would decide."""

    cause: Cause
    decide_by: str


class CutLink(Struct, frozen=True):
    """What one host sends no longer reaches another; a full cut is two of these."""

    source: str
    target: str
    seconds: float = 0.0


class Verdict(Struct, frozen=True):
    """One diagnosis. The field names up to `dont` are a frozen public surface."""

    cause: Cause
    confidence: Confidence
    culprits: tuple[Culprit, ...]
    victims: tuple[int, ...]
    since: str
    """ISO 8601, UTC."""
    evidence: tuple[Evidence, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    records: tuple[str, ...] = ()
    do: tuple[str, ...] = ()
    dont: tuple[str, ...] = ()
    summary: str = ""
    """One sentence with the rank first."""
    because: str = ""
    """Why the confidence is what it is."""
    stuck: StuckOperation | None = None
    chain: tuple[str, ...] = ()
    """Who waits for whom, from the victims to the culprit, one line a hop."""
    stalled_seconds: float = 0.0
    slowdown: float = 0.0
    """How many times longer a step takes because of the culprits; 0 for a job that stands."""
    made_at: str = ""
    attempt: int = 0
    step: int = 0
    cut: tuple[CutLink, ...] = ()
    """For a network partition: between which hosts, in which direction."""
    until: str = ""
    """When it was over, ISO 8601, UTC; empty while it lasts."""
    basis: Basis | None = None
    """None where it was read from logs or by an older unstuck."""


class VerdictFile(Struct, frozen=True):
    """The machine-readable form of every verdict: `verdict` is null when nothing is wrong."""

    verdict: Verdict | None
    schema: str = SCHEMA
