"""What is known of one rank at one moment, as its node's agent saw it.

Every duration is in seconds and counts back from the moment the frame was sent,
so frames of hosts whose clocks disagree can still be merged.
"""

from msgspec import Struct


class CodeLine(Struct, frozen=True, omit_defaults=True):
    """One frame of a Python stack; `text` is the source line where it could be read."""

    file: str
    line: int
    function: str
    text: str = ""
    user: bool = False
    """True for the training script's own code, False for libraries."""


class Operation(Struct, frozen=True, omit_defaults=True):
    """One collective as the flight recorder wrote it down."""

    group: str
    number: int
    op: str
    sizes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    age: float = 0.0
    """Seconds since it was issued."""
    done: bool = False


class PointToPoint(Struct, frozen=True, omit_defaults=True):
    """A send or receive that has not completed. `ordinal` counts per (group, from, to)."""

    kind: str
    """`send` or `recv`."""
    group: str
    peer: int
    """Global rank of the other side; -1 for a receive from anybody."""
    ordinal: int
    tag: int = 0
    age: float = 0.0


class GroupProgress(Struct, frozen=True, omit_defaults=True):
    """How far one rank got in one process group.

    `enqueued` and `completed` count collectives (not sends and receives) from 1.
    `pending` lists the incomplete ones that the recorder still holds, oldest first;
    `recent` the last completed ones. Both are empty until evidence was asked for.
    """

    name: str
    ranks: tuple[int, ...]
    """Global ranks of all members."""
    enqueued: int
    completed: int
    description: str = ""
    backend: str = ""
    pending: tuple[Operation, ...] = ()
    recent: tuple[Operation, ...] = ()


class Process(Struct, frozen=True, omit_defaults=True):
    """The operating system's view of a rank's process and its main thread."""

    pid: int
    state: str = "?"
    """The letter of /proc: R S D T t Z X, or `gone`."""
    waits_in: str = ""
    """Kernel function the main thread sleeps in (/proc wchan), where readable."""
    cpu: float = 0.0
    """Share of one core that the main thread used since the last look, 0 to 1."""
    delayed: float = 0.0
    """Share of the last seconds in which the main thread was runnable and had no core."""
    rss: int = 0
    exit_code: int | None = None
    """0 and up: exit status; below 0: minus the signal; None: alive, or unknown."""
    gone_for: float | None = None
    """Seconds since the process ended; None while it lives."""
    oom_kills: int = 0
    """Kills by the out-of-memory killer in this rank's cgroup since the job began."""


class Failure(Struct, frozen=True, omit_defaults=True):
    """The exception that is ending a rank, as its own excepthook saw it."""

    type: str
    message: str
    age: float
    at: CodeLine | None = None


class Pace(Struct, frozen=True, omit_defaults=True):
    """How long this rank usually goes between two signs of progress."""

    gaps: int = 0
    typical: float = 0.0
    longest: float = 0.0


class Tempo(Struct, frozen=True, omit_defaults=True):
    """Where the time of a moving rank goes, over the last steps."""

    steps: int = 0
    """How many steps this covers; 0 while there are too few to say."""
    step: float = 0.0
    """Typical seconds a step takes."""
    own: float = 0.0
    """Typical seconds of a step outside collectives: what this rank itself needs."""
    usual_own: float = 0.0
    """The same over the job's longer past, to tell what is new."""


class RankState(Struct, frozen=True, omit_defaults=True):
    """Everything the verdict may use about one rank."""

    rank: int
    host: str
    process: Process
    attempt: str = ""
    """Names the restart this process belongs to; equal on all nodes."""
    restarts: int = 0
    """How often this node's launcher has restarted its ranks."""
    age: float = 0.0
    """Since the process started."""
    world_size: int = 0
    local_rank: int = 0
    unobserved: str = ""
    """Why the inside of this rank cannot be seen; empty when it can."""
    phase: str = "start"
    """`start`, `init`, `run`, `exception`, `exit`: how far the process has come."""
    step: int = 0
    sections: tuple[str, ...] = ()
    section_left: float | None = None
    """Seconds until the section's own deadline, below 0 when overdue; None without one."""
    beat_age: float = 0.0
    """Since the helper thread last ran: large when the GIL is held or the process stopped."""
    stalled_for: float = 0.0
    """Since the last sign of progress (step, section, collective, send or receive)."""
    in_flight: bool = False
    """Some collective or point-to-point operation was issued and has not completed."""
    pace: Pace = Pace()
    tempo: Tempo = Tempo()
    groups: tuple[GroupProgress, ...] = ()
    p2p: tuple[PointToPoint, ...] = ()
    stack: tuple[CodeLine, ...] = ()
    """Main thread, innermost first: the frames that matter, the user's own among them."""
    threads: tuple[str, ...] = ()
    """Full stacks of all threads as text, once asked for."""
    failure: Failure | None = None
    recorder_age: float | None = None
    """Since the recorder was last read in full; None if it was not."""
    stack_age: float | None = None
    """Since a stack was last taken from outside; None if it was not."""
    gil_held: bool = False
    """The rank's C++ server answers while its Python threads cannot run."""
