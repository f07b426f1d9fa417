"""What a culprit does instead of what the others wait for, as values that code can tell apart.

`diagnose` decides on one of these, `diagnose/wording.py` puts it into words, and the advice is
chosen by its type. In JSON it is `culprit.activity`, an object with a `kind`; `culprit.kind` has
the same word, and `culprit.doing` is the English phrase.
"""

import re
from enum import StrEnum

from msgspec import Struct

from unstuck.model.host import OtherProcess
from unstuck.model.neighbour import Neighbour


def _kind(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


class Doing(Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="kind", tag=_kind):
    """Anything that a rank may be doing; the kinds below say what."""

    section: str = ""
    """The section of the script it is in: `with unstuck.section("load")`."""
    overdue: float = 0.0
    """Seconds by which it has exceeded the deadline of that section."""
    handling: str = ""
    """The exception that it is handling meanwhile: its type, and its text where that is known."""


# --- a living rank that is not in the operation


class Asleep(Doing, frozen=True):
    """In time.sleep or another timer."""


class Computing(Doing, frozen=True):
    """Running its own code."""


class HoldsGil(Doing, frozen=True):
    """In a C call that does not release the GIL: no Python thread of it can run."""


class WaitsForLock(Doing, frozen=True):
    """Waiting for a lock of its own process."""


class Input(StrEnum):
    """What is waited for where work comes in."""

    QUEUE = "queue"
    REQUEST = "request"


class WaitsForInput(Doing, frozen=True):
    """Waiting for work to come in: an item of a queue, a request to a server."""

    how: Input


class WaitsForThread(Doing, frozen=True):
    """Waiting for another thread of its process: its end, or the result of its work."""


class WaitsForFileLock(Doing, frozen=True):
    """Waiting for a lock on a file."""

    path: str = ""
    holders: tuple[Neighbour, ...] = ()


class Child(StrEnum):
    """What is known of a child process that is waited for."""

    STOPPED = "stopped"
    LOCKED = "locked"
    """It waits for a lock itself."""
    EXIT = "exit"
    """The rank waits for it to exit."""
    DATA = "data"
    """The rank waits for data from it."""


class WaitsForProcess(Doing, frozen=True):
    """Waiting for child processes."""

    processes: tuple[Neighbour, ...]
    how: Child


class WaitsForReader(Doing, frozen=True):
    """Blocked writing to a full pipe."""

    pipe: str = ""
    readers: tuple[Neighbour, ...] = ()


class WaitsForWorkers(Doing, frozen=True):
    """Waiting for a batch from its DataLoader workers."""


class WaitsForDisk(Doing, frozen=True):
    """In uninterruptible sleep: a disk or a network file system."""


class WaitsForStore(Doing, frozen=True):
    """Waiting for the job's key-value store."""

    call: str


class Source(StrEnum):
    """Where awaited data would come from."""

    PIPE = "pipe"
    SOCKET = "socket"
    CHILD = "child"
    ANY = "pipe or socket"


class WaitsForData(Doing, frozen=True):
    """In a read outside any collective."""

    how: Source


class Resource(StrEnum):
    """What a host may be short of."""

    CORE = "core"
    QUOTA = "quota"
    """The CPU limit of its control group."""
    STEAL = "steal"
    """Cores that the hypervisor gives to other virtual machines."""
    MEMORY = "memory"
    DISK = "disk"


class Starved(Doing, frozen=True):
    """Its host does not give it what it needs."""

    how: Resource
    share: float
    """Of the time, from 0 to 1."""
    taker: OtherProcess | None = None
    """The heaviest user of it outside the job."""


class Unclear(Doing, frozen=True):
    """Alive and not in the operation; nothing shows why."""


class IssuedLast(Doing, frozen=True):
    """All that is known is its flight recorder's dump: its last collective, if it has one."""

    op: str = ""
    number: int = 0
    group: str = ""


class DeviceStopped(Doing, frozen=True):
    """Has issued operations that its device does not carry out, while those of others did."""

    group: str
    """The group in which it is furthest behind: its description, or `group 3`."""
    completed: int
    others: int
    """How many operations of the group the other members have completed."""


# --- ranks that disagree about an operation


class Runs(Doing, frozen=True):
    """Running another operation than the others under the same number."""

    operation: str
    number: int
    group: str


class InCall(Doing, frozen=True):
    """Waiting in a call that the others are not in."""

    call: str
    skipped: str = ""
    """The call in which the others wait for it."""


class Unanswered(Doing, frozen=True):
    """In a send or receive without a counterpart."""

    op: str
    ordinal: int
    peer: int
    """-1: a receive from any rank."""
    tag: int = 0


class Unposted(Doing, frozen=True):
    """In a collective, while a peer waits for it to post a send or receive."""

    number: int = 0
    group: str = ""


class LeftLoop(Doing, frozen=True):
    """Out of the loop that the others are still in."""

    loop: str
    instead: "Activity"


class StillInLoop(Doing, frozen=True):
    """In a loop that most of the others have left: it has more work to do than they had."""

    loop: str = ""


class Before(StrEnum):
    """What a rank that has not joined has yet to do first."""

    IMPORT = "import"
    INIT = "init"


class NotJoined(Doing, frozen=True):
    """Has not called init_process_group."""

    instead: "Activity"
    how: Before = Before.INIT


# --- ranks that have ended


class Raised(Doing, frozen=True):
    """Failed with an exception of its own."""

    error: str
    """Type and first line of the message, as Python prints them."""


class During(StrEnum):
    """What a process was doing when a signal ended it."""

    WORK = "work"
    LINE = "line"
    """The line of code is known."""
    SHUTDOWN = "shutdown"
    """Its script had ended; the interpreter was shutting down."""
    AFTER_DESTROY = "after-destroy"
    """The same, after it had destroyed its process groups."""


class Killed(Doing, frozen=True):
    """Ended by a signal."""

    signal: str
    how: During = During.WORK


class Exited(Doing, frozen=True):
    """Ended with an exit code other than 0."""

    code: int


class Ending(StrEnum):
    """How a rank that did not fail by its own account has ended."""

    EARLY = "early"
    """Successfully, while others still needed it."""
    LOOP = "loop"
    """At the end of its loop, while others still needed it."""
    UNJOINED = "unjoined"
    """Successfully, before init_process_group."""
    STORE = "store"
    """And the job's store with it."""
    FIRST = "first"
    """Before all others; nothing else is known."""
    VANISHED = "vanished"
    """Nobody knows how."""


class Ended(Doing, frozen=True):
    """Ended without a failure of its own being known."""

    how: Ending


class LostLauncher(Doing, frozen=True):
    """Its launcher was killed."""

    signal: str


# --- ranks that cannot be seen or cannot run


class Hold(StrEnum):
    """What holds a stopped process."""

    SIGNAL = "signal"
    FREEZER = "freezer"
    DEBUGGER = "debugger"


class Stopped(Doing, frozen=True):
    """Its process is stopped."""

    how: Hold


class Contact(StrEnum):
    """What is left of the connection to a host."""

    SILENT = "silent"
    FROZEN = "frozen"
    """Its kernel answers, its processes do not run."""
    ONE_WAY = "one-way"
    """It is heard, but nothing reaches it."""
    BACK = "back"
    """It was cut off and is back."""


class Unreachable(Doing, frozen=True):
    """On a host that is, or was, not reachable."""

    host: str
    how: Contact


class NeverSeen(Doing, frozen=True):
    """Nothing of this rank was ever seen."""


# --- ranks that are slow


class Slow(Doing, frozen=True):
    """Needs more time of its own than the others."""

    own: float
    """Seconds a unit."""
    others: float
    unit: str = "step"
    lacks: Starved | None = None


class NeedsLonger(Doing, frozen=True):
    """Does work that is known to take longer than the timeout of the others."""

    longest: float
    place: str
    limit: float


# --- what only logs tell


class Work(StrEnum):
    """Work that logs show and that takes long."""

    PREPARING = "preparing"
    SAVING = "saving"
    EVALUATING = "evaluating"
    GENERATING = "generating"
    LOADING = "loading"
    COMPILING = "compiling"


class Busy(Doing, frozen=True):
    """Was busy with something that its log shows."""

    how: Work


class Absent(Doing, frozen=True):
    """Did not arrive at the operation."""

    gave_up: bool = False
    """The others gave up waiting for it."""


class Silent(Doing, frozen=True):
    """Its log says nothing while others complain."""

    waiting: str
    """Those others: `ranks 0,1,3`."""


class Behind(Doing, frozen=True):
    """At an earlier collective than the others."""

    op: str
    number: int
    most: int


class Queued(Doing, frozen=True):
    """Has queued fewer operations than the others."""

    number: int


class Reports(Doing, frozen=True):
    """Reports the failure."""


Activity = (
    Asleep
    | Computing
    | HoldsGil
    | WaitsForLock
    | WaitsForInput
    | WaitsForThread
    | WaitsForFileLock
    | WaitsForProcess
    | WaitsForReader
    | WaitsForWorkers
    | WaitsForDisk
    | WaitsForStore
    | WaitsForData
    | Starved
    | Unclear
    | IssuedLast
    | DeviceStopped
    | Runs
    | InCall
    | Unanswered
    | Unposted
    | LeftLoop
    | StillInLoop
    | NotJoined
    | Raised
    | Killed
    | Exited
    | Ended
    | LostLauncher
    | Stopped
    | Unreachable
    | NeverSeen
    | Slow
    | NeedsLonger
    | Busy
    | Absent
    | Silent
    | Behind
    | Queued
    | Reports
)
"""All kinds there are."""

OVER = (Raised, Killed, Exited, Ended, LostLauncher)
"""Kinds that are done: the seconds of the culprit say how long ago, not for how long."""
