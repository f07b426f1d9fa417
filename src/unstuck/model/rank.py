"""What is known of one rank at one moment, as its node's agent saw it.

Every duration is in seconds and counts back from the moment the frame was sent,
so frames of hosts whose clocks disagree can still be merged.
"""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct, structs

from unstuck.model.bounds import AnyRank, Number, Rank, Ranks, Whole
from unstuck.model.life import Life
from unstuck.model.neighbour import HostWait


class ProcessState(StrEnum):
    """The letter of /proc, and what /proc does not say."""

    RUNNING = "R"
    SLEEPING = "S"
    DISK = "D"
    """Uninterruptible."""
    STOPPED = "T"
    TRACED = "t"
    """Held by a debugger."""
    ZOMBIE = "Z"
    DEAD = "X"
    FROZEN = "F"
    """Its control group is frozen."""
    GONE = "gone"
    OTHER = "?"

    @classmethod
    def _missing_(cls, value: object) -> "ProcessState":  # noqa: ARG003 - any other letter
        return cls.OTHER


class Phase(StrEnum):
    """How far a rank's process has come."""

    BORN = "born"
    """torch is not imported yet."""
    START = "start"
    INIT = "init"
    """In init_process_group."""
    RUN = "run"
    EXCEPTION = "exception"
    EXIT = "exit"


class CodeLine(Struct, frozen=True, omit_defaults=True):
    """One frame of a Python stack; `text` is the source line where it could be read."""

    file: str
    line: Whole
    function: str
    text: str = ""
    user: bool = False
    """True for the training script's own code, False for libraries."""


class Operation(Struct, frozen=True, omit_defaults=True):
    """One collective as the flight recorder wrote it down."""

    group: str
    number: Whole
    op: str
    sizes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    age: Number = 0.0
    """Seconds since it was issued."""
    done: bool = False
    root: AnyRank = -1
    """Global rank of the root of a broadcast, reduce, gather or scatter; -1: none or unknown."""


class PointToPoint(Struct, frozen=True, omit_defaults=True):
    """A send or receive that has not completed. `ordinal` counts per (group, from, to)."""

    kind: str
    """`send` or `recv`."""
    group: str
    peer: AnyRank
    """Global rank of the other side; -1 for a receive from anybody."""
    ordinal: Whole
    tag: Whole = 0
    age: Number = 0.0


class GroupProgress(Struct, frozen=True, omit_defaults=True):
    """How far one rank got in one process group.

    `enqueued` and `completed` count collectives (not sends and receives) from 1.
    `pending` lists the incomplete ones that the recorder still holds, oldest first;
    `recent` the last completed ones. Both are empty until evidence was asked for.
    """

    name: str
    ranks: tuple[Rank, ...]
    """Global ranks of all members."""
    enqueued: Whole
    completed: Whole
    description: str = ""
    backend: str = ""
    pending: tuple[Operation, ...] = ()
    recent: tuple[Operation, ...] = ()
    timeout: Number = 0.0
    """Seconds that its operations may take, as torch has it; 0 if not known."""

    def with_operations(
        self, operations: Sequence[Operation], enqueued: int, most: int
    ) -> "GroupProgress":
        """Return the exact progress that these operations, oldest first, show; keep `most`."""
        pending = [one for one in operations if not one.done]
        return structs.replace(
            self,
            enqueued=enqueued,
            completed=pending[0].number - 1 if pending else enqueued,
            pending=tuple(pending[:most]),
            recent=tuple(one for one in operations if one.done)[-most:],
        )


class Process(Struct, frozen=True, omit_defaults=True):
    """The operating system's view of a rank's process and its main thread."""

    pid: Whole
    state: ProcessState = ProcessState.OTHER
    waits_in: str = ""
    """Kernel function the main thread sleeps in (/proc wchan), where readable."""
    cpu: Number = 0.0
    """Share of one core that the main thread used since the last look, 0 to 1."""
    delayed: Number = 0.0
    """Share of the last seconds in which the main thread was runnable and had no core."""
    throttled: Number = 0.0
    """Share of the last seconds in which its cgroup was held back by its cpu limit."""
    cores: tuple[int, ...] = ()
    """The cores its main thread may use, where not all of the host's."""
    rss: Whole = 0
    exit_code: Whole | None = None
    """0 and up: exit status; below 0: minus the signal; None: alive, or unknown."""
    gone_for: Number | None = None
    """Seconds since the process ended; None while it lives."""
    oom_kills: Whole = 0
    """Kills by the out-of-memory killer in this rank's cgroup since the job began."""


class Failure(Struct, frozen=True, omit_defaults=True):
    """The exception that is ending a rank, as its own excepthook saw it."""

    type: str
    message: str
    age: Number
    at: CodeLine | None = None


class LongPlace(Struct, frozen=True, omit_defaults=True):
    """A line, function or section at which the rank has been long without a sign of progress."""

    place: str
    visits: Whole
    longest: Number


class Pace(Struct, frozen=True, omit_defaults=True):
    """How long this rank usually goes between two signs of progress, by its own doing."""

    gaps: Whole = 0
    typical: Number = 0.0
    longest: Number = 0.0
    """At the places that it comes to all the time; others are in `places`."""
    waited: Number = 0.0
    """The longest that one of its operations was in flight."""
    step: Number = 0.0
    """Typical seconds from one step to the next; 0 where steps are not counted."""
    first: Number = 0.0
    """The longest gap of the first few operations, while everything warms up."""
    places: tuple[LongPlace, ...] = ()


class Tempo(Struct, frozen=True, omit_defaults=True):
    """Where the time of a moving rank goes, over the last steps."""

    steps: Whole = 0
    """How many steps this covers; 0 while there are too few to say."""
    step: Number = 0.0
    """Typical seconds a step takes."""
    own: Number = 0.0
    """Typical seconds of a step outside collectives: what this rank itself needs."""
    error: Number = 0.0
    """How far that may be off by chance (standard error): it differs from step to step."""
    usual_own: Number = 0.0
    """The same over the job's longer past, to tell what is new."""
    delayed: Number | None = None
    """Seconds of a step in which its main thread was runnable and had no core; None: not told."""
    disk: Number = 0.0
    """Seconds of a step in which its main thread waited in the kernel, as for a disk (state D)."""
    unit: str = "step"
    """What is counted: `step`, or `collective` in a job that takes no optimizer steps."""
    changed_for: Number = 0.0
    """Seconds since its own time left the usual; 0 while it has not."""
    place: CodeLine | None = None
    """The line of the script in which most of the own time passes, and its share of it; of a rank
    that became slow, the line that takes most more than before."""
    place_share: Number = 0.0


class RankSettings(Struct, frozen=True, omit_defaults=True):
    """What this rank's timeouts were set by, as its probe read it after init."""

    store: Number = 0.0
    """Seconds that a call of the job's key-value store may take; 0 if not known."""
    env: dict[str, str] = {}
    """The variables that torch, NCCL, the launcher or the scheduler would read, where set."""


class RankState(Struct, frozen=True, omit_defaults=True):
    """Everything the verdict may use about one rank."""

    rank: Rank
    host: str
    process: Process
    attempt: str = ""
    """Names the restart this process belongs to; equal on all nodes."""
    restarts: Whole = 0
    """How often this node's launcher has restarted its ranks."""
    age: Number = 0.0
    """Since the process started."""
    world_size: Ranks = 0
    local_rank: Whole = 0
    unobserved: str = ""
    """Why the inside of this rank cannot be seen; empty when it can."""
    phase: Phase = Phase.START
    step: Whole = 0
    sections: tuple[str, ...] = ()
    section_left: Number | None = None
    """Seconds until the section's own deadline, below 0 when overdue; None without one."""
    beat_age: Number = 0.0
    """Since the helper thread last ran: large when the GIL is held or the process stopped."""
    stalled_for: Number = 0.0
    """Since the last sign of progress (step, section, collective, send or receive)."""
    places: tuple[str, ...] = ()
    """Where it has been since then: its own line of code, its function, its section."""
    lines: Whole = 0
    """At how many lines of the script it was seen since then: few in a wait or a tight loop."""
    in_flight: bool = False
    """Some collective or point-to-point operation was issued and has not completed."""
    pace: Pace = Pace()
    tempo: Tempo = Tempo()
    groups: tuple[GroupProgress, ...] = ()
    p2p: tuple[PointToPoint, ...] = ()
    stack: tuple[CodeLine, ...] = ()
    """Main thread, innermost first: the frames that matter, the user's own among them."""
    loops: tuple[str, ...] | None = None
    """The loops of the script that the main thread is in, outermost first, as `file:line`; of a
    rank that destroyed its groups, those it did that from. None if not known."""
    route: tuple[CodeLine, ...] = ()
    """The calls of the script that led to where the main thread is, outermost first."""
    left_for: Number | None = None
    """Since it destroyed its process groups for good; None if it did not."""
    store: str = ""
    """Who hosts the job's key-value store: `launcher` or `rank 0`."""
    threads: tuple[str, ...] = ()
    """Full stacks of all threads as text, once asked for."""
    elsewhere: tuple[CodeLine, ...] | None = None
    """Where its other Python threads are: of each the innermost line. None if not known."""
    waiting: HostWait = HostWait()
    """What it waits for on its own host; empty until a stack was asked for."""
    life: Life | None = None
    """Its signs of life, from when a stack was first asked for; None before, or where hidden."""
    failure: Failure | None = None
    printed: tuple[str, ...] = ()
    """The last lines of its output, where that is in a file anyway: of a rank that failed or
    was looked at."""
    crashed_in: str = ""
    """The kind of thread in which a fatal signal arose: `python`, whose frames `stack` has then,
    or `native`, one that runs no Python code; empty if not known."""
    handling: str = ""
    """The exception that the main thread is handling, as in a `finally` that cleans up."""
    exit_asked: Whole | None = None
    """The code that its script gave to sys.exit, known before the process has ended."""
    recorder_age: Number | None = None
    """Since the recorder was last read in full; None if it was not."""
    stack_age: Number | None = None
    """Since a stack was last taken from outside; None if it was not."""
    hook: str = ""
    """Of its `@unstuck.on_stall` hooks: `ready`, `running`, `done`, `failed`; empty: none."""
    hook_seconds: Number = 0.0
    """How long they may take by their own word; 0: they do not say."""
    gil_held: bool = False
    """The rank's C++ server answers while its Python threads cannot run."""
    settings: RankSettings = RankSettings()
