"""Which nodes and ranks are heard: the one classification that everybody goes by.

Hub, callbacks, answers to ranks, lease and diagnosis all ask here, so that `on_silent` and a
verdict cannot contradict each other: a node that a verdict calls silent is silent for
`on_silent` too, and usually was before (`SILENT_AFTER`).

All limits are in seconds. An agent sends a frame at least once a second and a probe to its peers
three times a second. How long a silence is unusual for a node is learned from how its frames
arrived (`NodeState.suspect_after`, between `FRAME_LIMITS`); old bundles without it fall back to
`SILENT_AFTER`.
"""

from collections.abc import Container, Iterable
from enum import Enum, IntEnum, StrEnum

from unstuck.model.rank import Process, RankState
from unstuck.model.snapshot import SILENT_AFTER, NodeState, Snapshot

# --- limits for the frames of a node, from the shortest to the longest

MISSED_BY_ALL = 1.1
"""One frame is missing, and every peer suspects the node as well: two independent signs."""
CHECK_KERNEL_AFTER = 1.25
"""The hub tests whether the node's kernel still acknowledges: early, so that the answer is there
by the time the node counts as silent."""
FRAME_OVERDUE = 1.5
"""The frame of this second is missing: what is known of the node's ranks is no longer current."""
GAP = 2.0
"""A pause this long between two frames was an interruption, not jitter."""
MISSED_BY_SOME = 2.0
"""Some peer no longer hears the node either; less than `SILENT_AFTER`, as two signs agree."""
HUB_LOST_AFTER = 2.0
"""An agent without its hub judges for itself from here on."""
CUT_OFF_AFTER = 2.5
"""An agent whose frames are not confirmed for this long is cut off from the hub."""
LOST_FOR_GOOD = 30.0
"""A node that has been silent for this long was lost in an earlier incident."""
FRAME_LIMITS = (1.5, 6.0)
"""The learned limit for the frames of a node is between these."""

# --- limits for the probes between agents

PROBE_HEARD = 1.0
"""Three probes fit in here: a peer heard within this time is alive and its link works."""
PROBE_QUIET = 1.75
"""Five probes and five answers in a row are missing. Between the two it is not decided."""
PROBE_LATE = 0.75
"""Two probes are missing: frames are sent more often from here on."""
PROBE_LIMITS = (1.0, 6.0)
"""The learned limit for the probes of a peer is between these."""

# --- a rank's process

FROZEN_AFTER = 3.0
"""The helper thread of a rank runs ten times a second: after this long it cannot run."""
_ENDED = frozenset({"gone", "Z", "X"})
_STOPPED = frozenset({"T", "t", "F"})

_USUAL = 0.3
"""An agent hears its peers this often while all is well."""
_MOST_BEFORE = 1.0
"""A node counts as out of touch at most this long before its last frame."""


class Life(StrEnum):
    """What the frames of a node say of it; the values are what ranks read."""

    PRESENT = "alive"
    LATE = "late"
    """A frame is overdue, but not for longer than this node is known to take."""
    SILENT = "silent"
    STOPPED = "stopped"
    """Silent, but its kernel acknowledges what is sent: only its processes do not run."""
    LOST = "lost"
    """Its agent is gone; the host answered."""
    ENDED = "ended"
    """Its launch command has ended."""


HEARD = frozenset({Life.PRESENT, Life.LATE})


class Doubt(IntEnum):
    """How many of the peers that probe a node miss it."""

    NONE = 0
    SOME = 1
    ALL = 2


class Standing(Enum):
    """How much the last frames tell of a rank."""

    LIVE = "live"
    STOPPED = "stopped"
    GONE = "gone"
    SILENT = "silent"
    """Its node is silent."""
    UNSEEN = "unseen"
    """Its process lives, but nobody can look into it."""
    MISSING = "missing"
    """It was never seen."""


# --- nodes


def of_node(node: NodeState, doubt: Doubt = Doubt.NONE) -> Life:
    """Classify a node by its last frame and by what its peers say (see `doubts`)."""
    if node.ended:
        return Life.ENDED
    if node.disconnected:
        return Life.LOST
    if _is_silent(node, doubt):
        return Life.STOPPED if node.kernel_answers else Life.SILENT
    return Life.LATE if node.silent_for > FRAME_OVERDUE else Life.PRESENT


def _is_silent(node: NodeState, doubt: Doubt) -> bool:
    if node.silent_for > node.suspect_after:
        return True
    if doubt is Doubt.ALL and node.silent_for > MISSED_BY_ALL:
        return True
    return doubt > Doubt.NONE and out_of_touch_for(node) > MISSED_BY_SOME


def is_silent_for_verdict(node: NodeState, *, doubted: bool) -> bool:
    """Tell whether a verdict may say that nothing is heard from a node.

    A callback that was too early costs a message, a wrong verdict costs a job: so it takes the
    learned limit and `SILENT_AFTER`, or a peer that misses the node as well.
    """
    if node.silent_for > verdict_limit(node):
        return True
    return doubted and out_of_touch_for(node) > MISSED_BY_SOME


def verdict_limit(node: NodeState) -> float:
    """Return after how many seconds a node is silent for a verdict, if no peer misses it."""
    return max(SILENT_AFTER, node.suspect_after)


def is_late(node: NodeState) -> bool:
    """Tell whether a frame is overdue and the node is not silent yet: it may be lost."""
    if node.ended or node.disconnected:
        return False
    return FRAME_OVERDUE < node.silent_for <= verdict_limit(node)


def is_surely_heard(node: NodeState) -> bool:
    """Tell whether a node was heard so recently that it cannot follow another hub by now."""
    return node.silent_for <= min(SILENT_AFTER, node.suspect_after)


def out_of_touch_for(node: NodeState) -> float:
    """Count from when a node last heard anybody.

    The first frame of one that nothing reaches still arrives, and says that it hears nobody;
    the next ones wait for a confirmation that never arrives.
    """
    heard = [link.heard_for for link in node.links if link.heard_for is not None]
    before = min(heard, default=0.0) - _USUAL
    return node.silent_for + min(_MOST_BEFORE, max(0.0, before))


def doubts(nodes: Iterable[NodeState]) -> dict[str, Doubt]:
    """Say of each host that is missed by a peer whether some or all of its peers miss it."""
    suspected: dict[str, list[bool]] = {}
    missed: set[str] = set()
    for node in nodes:
        if node.silent_for > FRAME_OVERDUE or node.disconnected:
            continue
        for link in node.links:
            if node.silent_for < MISSED_BY_ALL:
                suspected.setdefault(link.host, []).append(link.suspect)
            ages = (link.heard_for, link.answered_for)
            if any(age is not None and age >= PROBE_QUIET for age in ages):
                missed |= {node.host, link.host}
    by_all = {host for host, found in suspected.items() if all(found)}
    return dict.fromkeys(missed, Doubt.SOME) | dict.fromkeys(by_all, Doubt.ALL)


def silent_hosts(snapshot: Snapshot) -> frozenset[str]:
    """Name the hosts from which no agent is heard."""
    doubt = doubts(snapshot.nodes)
    heard: dict[str, bool] = {}
    for node in snapshot.nodes:
        life = of_node(node, doubt.get(node.host, Doubt.NONE))
        heard[node.host] = heard.get(node.host, False) or life in HEARD
    return frozenset(host for host, found in heard.items() if not found)


# --- ranks


def has_ended(state: RankState) -> bool:
    """Tell whether the process of a rank is gone (or only waits to be reaped)."""
    return state.process.gone_for is not None or state.process.state in _ENDED


def is_stopped(process: Process) -> bool:
    """Tell whether a process is stopped by a signal, traced, or frozen with its control group."""
    return process.state in _STOPPED


def is_frozen(state: RankState) -> bool:
    """Tell whether no Python code of a rank can run, although its process does."""
    return state.beat_age > FROZEN_AFTER


_BY_LETTER = dict.fromkeys(_ENDED, Standing.GONE) | dict.fromkeys(_STOPPED, Standing.STOPPED)
# Enum members are looked up on each use, which counts where all ranks of a large job are judged.
_GONE, _LIVE = Standing.GONE, Standing.LIVE


def of_rank(state: RankState, silent: Container[str] = (), unseen: Container[str] = ()) -> Standing:
    """Classify a rank, given the hosts that are silent and those whose agents are gone.

    What has ended stays ended, whatever became of its host.
    """
    process = state.process
    seen = _GONE if process.gone_for is not None else _BY_LETTER.get(process.state, _LIVE)
    if seen is _GONE:
        return seen
    if state.host in unseen:
        return Standing.UNSEEN
    if state.host in silent:
        return Standing.SILENT
    return Standing.UNSEEN if seen is _LIVE and state.unobserved else seen
