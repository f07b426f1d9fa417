"""What was read in logs: lines, matches of knowledge-base records, and facts about the job."""

from enum import StrEnum

from msgspec import Struct

from unstuck.model.rank import CodeLine
from unstuck.model.verdict import Cause


class LogFact(StrEnum):
    """Facts that separate the causes of one message; found by comparing lines and ranks."""

    ONE_ELEMENT = "one-element"
    """The stuck collective has one element: a barrier, or a flag."""
    FIRST_COLLECTIVE = "first-collective"
    """Its number is 1 or 2."""
    HAD_WORKED = "had-worked"
    """Its number is larger: other collectives of its group had worked before."""
    EARLY = "early"
    """Its number is small (under 100): before or at the start of training."""
    GATHER_OP = "gather-op"
    """It is an all-gather, gather or broadcast, as saving and evaluation issue."""
    SHARD_GATHER = "shard-gather"
    """It gathers a sharded parameter (`_ALLGATHER_BASE`), as ZeRO-3 and FSDP do in every layer."""
    LARGE_REDUCE = "large-reduce"
    """It reduces many elements, as the gradients of a training step."""
    SOME_SILENT = "some-silent"
    """Some ranks of the job complain and others say nothing."""
    RANK_0_SILENT = "rank-0-silent"
    """Several ranks wait in the same operation, and rank 0 is not among them.

    The first one of the job counts only where it is a barrier that all others reached: else the
    network may be the reason just as well.
    """
    RANK_0_ALONE = "rank-0-alone"
    """Rank 0 is the only one that waits."""
    ALL_WAIT = "all-wait"
    """All ranks wait in the same operation with the same number."""
    NUMBER_DIFFERS = "number-differs"
    """Ranks are at different numbers of one group."""
    OP_DIFFERS = "op-differs"
    """Ranks are at different operations of one group."""
    SIZE_DIFFERS = "size-differs"
    EARLIER_FAILURE = "earlier-failure"
    """Another rank had failed before."""
    OUT_OF_MEMORY = "out-of-memory"
    """An out-of-memory message stands near or before it."""
    PREPARING = "preparing"
    """Tokenising, mapping, grouping, downloading: a preparation was still going on."""
    SAVING = "saving"
    EVALUATING = "evaluating"
    GENERATING = "generating"
    LOADING = "loading"
    """Weights or shards were being loaded."""
    COMPILING = "compiling"
    AT_END = "at-end"
    """Training had finished, or an epoch just ended."""
    QUEUE_DIFFERS = "queue-differs"
    """Ranks report different numbers of queued work."""
    REFUSED = "refused"
    """errno text: connection refused."""
    UNREACHABLE = "unreachable"
    """errno text: no route, network unreachable, connection timed out."""
    NO_ROUTE = "no-route"
    """errno text: no route to host. A router or a firewall answers in the host's place."""
    LOOPBACK = "loopback"
    """A loopback address where another host should be."""
    LINK_LOCAL = "link-local"
    """fe80:: or 169.254."""
    FEWER_JOINED = "fewer-joined"
    MORE_JOINED = "more-joined"
    KILLED = "killed"
    """A process was killed by signal 9."""
    TRAINING = "training"
    """Training steps went by before it."""
    BRACKETED = "bracketed"
    """An IPv6 address with its brackets stands where a host name belongs."""
    ODD_ADDRESS = "odd-address"
    """An address that no host has: 0.x, 255.x, or the fake range of a proxy (198.18.x)."""
    DISK_FULL = "disk-full"
    ADDRESS_CHANGED = "address-changed"
    """A network card got another address during the job (GID table change)."""
    PORT_ERROR = "port-error"
    """A port of a network card went down or came back."""
    INIT_ERROR = "init-error"
    """CUDA says `initialization error`, or NCCL's NVLS set-up fails."""
    DEVICE_ASSERT = "device-assert"
    """A kernel's own check failed: an index, a label or a value is out of range."""
    SETTING_UP = "setting-up"
    """The failure arose while groups were made or the model was wrapped: nothing had worked yet."""
    NOT_READY = "not-ready"
    """CUDA 802: the system is not yet initialised."""
    PEER_CLOSED = "peer-closed"
    """A peer closed or reset its connection."""
    CONNECTION_ABORT = "connection-abort"
    """errno text: software caused connection abort."""
    SHORT_LIMIT = "short-limit"
    """The limit that ran out was a minute or less; by default it is ten minutes or more."""
    DEFAULT_GROUP = "default-group"
    """The awaited key is one of init_process_group or the launcher, not of a later group."""


class LogLine(Struct, frozen=True, omit_defaults=True):
    """One line, with what its prefix says about where it comes from."""

    file: str
    line: int
    text: str
    rank: int | None = None
    host: str = ""
    time: float | None = None
    """Unix time where the line has one."""


class LogMatch(Struct, frozen=True, omit_defaults=True):
    """A line that a knowledge-base record recognises, with the fields it names."""

    record: str
    role: str
    line: LogLine
    fields: dict[str, str]


class LogPhase(Struct, frozen=True):
    """A line that says what a rank was doing, and that it was alive."""

    fact: LogFact
    line: LogLine


class LogCause(Struct, frozen=True):
    """What a record says about one of its causes; `decide_by`: the evidence that separates it."""

    cause: Cause
    decide_by: str
    facts: tuple[LogFact, ...] = ()
    reported: int = 0


class LogRecord(Struct, frozen=True):
    """What diagnosis needs of a knowledge-base record."""

    id: str
    role: str
    title: str
    category: str
    domain: str
    causes: tuple[LogCause, ...]
    confidence: str = "likely"
    refines: str = ""
    facts: tuple[LogFact, ...] = ()


class LogFailure(Struct, frozen=True):
    """A failure in no record: its line, its exception where it ends a traceback, and from where."""

    line: LogLine
    exception: str = ""
    at: CodeLine | None = None


class LogReading(Struct, frozen=True):
    """Everything diagnosis may use of a job's logs."""

    matches: tuple[LogMatch, ...]
    phases: tuple[LogPhase, ...] = ()
    failures: tuple[LogFailure, ...] = ()
    """Exceptions and failure-looking lines that match no record."""
    raised: tuple[LogFailure, ...] = ()
    """Exceptions that do match one, with the frame that raised them."""
    ranks: tuple[int, ...] = ()
    """Ranks that said anything at all."""
    world_size: int = 0
    """0 where no line gives it."""
    usage_error: bool = False
    """The script refused its arguments."""
    distributed: bool = False
    """Some line shows that several processes worked together."""
    hosts: tuple[str, ...] = ()
    """Hosts that said anything at all, as their lines' prefixes name them."""
