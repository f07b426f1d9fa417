"""The job in brief: what `unstuck status`, the metrics, `unstuck top` and MCP are answered with.

Its size grows with the nodes, not with the ranks: of single ranks it has only those that matter.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from unstuck.collect.answers import moment
from unstuck.diagnose.job.patience import learned_patience
from unstuck.explain.view.doing_now import BY_LETTER
from unstuck.explain.view.job_view import JobView, view_job
from unstuck.model import liveness
from unstuck.model.host import Pressure
from unstuck.model.liveness import Doubt
from unstuck.model.notice import Notice
from unstuck.model.rank import Phase, RankState
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Verdict

SCHEMA = "unstuck.status/1"
FILE = "status.json"
"""Written into the run directory when the job has ended."""
MOST_LAGGARDS = 8
_LAGS = 1.2
"""A rank lags when its own time of a step is this many times that of the others."""


class JobState(StrEnum):
    """What the job as a whole does."""

    STARTING = "starting"
    """No rank has begun a step or a collective."""
    RUNNING = "running"
    HELD_UP = "held-up"
    """Ranks wait for one that is late; nothing is known to be wrong."""
    SLOW = "slow"
    """It moves, and a verdict says who slows it down."""
    STALLED = "stalled"
    """It does not move, or ranks have failed, and a verdict says why."""
    ENDED = "ended"
    UNWATCHED = "unwatched"
    """The job runs, but agent or hub do not answer."""


class NodeStatus(Struct, frozen=True):
    """One node: whether it is heard, and what its host lacks."""

    node: str
    host: str
    state: str
    ranks: int
    silent_seconds: float = 0.0
    pressure: Pressure = Pressure()


class Laggard(Struct, frozen=True):
    """A rank that needs more time of its own than the others, or that a verdict blames."""

    rank: int
    host: str
    state: str
    doing: str = ""
    place: str = ""
    """`train.py:31`, where it is or where most of its time passes."""
    own_seconds: float = 0.0
    """Of a step, outside of collectives."""
    stalled_seconds: float = 0.0
    blamed: bool = False


class OpenIncident(Struct, frozen=True):
    """A verdict about something that is not over, and where it is stored."""

    verdict: Verdict
    bundle: str = ""


class JobStatus(Struct, frozen=True, kw_only=True):
    """The whole job at one moment."""

    schema: str = SCHEMA
    run: str = ""
    """The run directory."""
    command: tuple[str, ...] = ()
    state: JobState
    observed_at: str = ""
    """ISO 8601, UTC."""
    attempt: int = 0
    step: int = 0
    world_size: int = 0
    ranks: dict[str, int] = {}
    """How many ranks are in which state (`explain/view/doing_now.py`)."""
    nodes: tuple[NodeStatus, ...] = ()
    job_seconds: float = 0.0
    """Since the oldest rank of this attempt started."""
    progress_seconds: float = 0.0
    """Since any rank last showed progress."""
    step_unit: str = "step"
    """What is counted: `step`, or `collective` in a job without optimizer steps."""
    step_seconds: float = 0.0
    own_seconds: float = 0.0
    """Of a step, outside of collectives; the median of the ranks."""
    waiting_seconds: float = 0.0
    """Of a step, in collectives; the median of the ranks."""
    patience: float = 0.0
    paused_seconds: float = 0.0
    """For how long stalls are not judged any more, because somebody paused that."""
    laggards: tuple[Laggard, ...] = ()
    open: tuple[OpenIncident, ...] = ()
    notices: tuple[Notice, ...] = ()
    """Who holds the others up at this moment without being known to be stuck."""
    incidents: int = 0
    """How many incidents are stored in the run directory."""


def make(
    snapshot: Snapshot,
    open_incidents: tuple[OpenIncident, ...] = (),
    notices: tuple[Notice, ...] = (),
    *,
    ended: bool = False,
) -> JobStatus:
    """Sum up a snapshot, the verdicts that are not over, and the hold-ups.

    Example:
        make(snapshot).state   # "running"
    """
    return of_view(
        view_of(snapshot, open_incidents, notices), snapshot, open_incidents, ended=ended
    )


def view_of(
    snapshot: Snapshot, open_incidents: tuple[OpenIncident, ...], notices: tuple[Notice, ...]
) -> JobView:
    """Return the whole job with the verdict that matters most."""
    return view_job(snapshot, open_incidents[0].verdict if open_incidents else None, notices)


def of_view(
    view: JobView,
    snapshot: Snapshot,
    open_incidents: tuple[OpenIncident, ...],
    *,
    ended: bool = False,
) -> JobStatus:
    """Sum up what was viewed already."""
    states = {
        rank: BY_LETTER[letter]
        for rank, letter in zip(view.grid.ranks, view.grid.states, strict=True)
    }
    live = [one for one in snapshot.ranks if not liveness.has_ended(one)]
    controls = snapshot.controls
    return JobStatus(
        state=JobState.ENDED if ended else _state(view, snapshot, open_incidents),
        observed_at=moment(snapshot.taken_at),
        attempt=snapshot.attempt,
        step=view.step,
        world_size=view.world_size,
        ranks={state.value: count for state, count in Counter(view.counts).most_common()},
        nodes=_nodes(snapshot),
        job_seconds=round(max((one.age for one in snapshot.ranks), default=0.0), 3),
        progress_seconds=round(min((one.stalled_for for one in live), default=0.0), 3),
        step_unit=view.time.unit,
        step_seconds=round(view.time.step, 6),
        own_seconds=round(view.time.own, 6),
        waiting_seconds=round(max(0.0, view.time.step - view.time.own), 6),
        patience=round(controls.patience or learned_patience(snapshot), 3),
        paused_seconds=controls.paused_left,
        laggards=_laggards(snapshot.ranks, states, view.time.own, open_incidents),
        open=open_incidents,
        notices=view.notices,
    )


def _state(view: JobView, snapshot: Snapshot, open_incidents: tuple[OpenIncident, ...]) -> JobState:
    if any(not one.verdict.slowdown for one in open_incidents):
        return JobState.STALLED
    if open_incidents:
        return JobState.SLOW
    if not any(map(_has_begun, snapshot.ranks)):
        return JobState.STARTING
    return JobState.HELD_UP if view.notices else JobState.RUNNING


def _has_begun(one: RankState) -> bool:
    if one.unobserved and one.phase == Phase.START:
        return True  # nobody can say: better no alarm about a start than a wrong one
    return one.step > 0 or bool(one.p2p) or any(group.enqueued for group in one.groups)


def _nodes(snapshot: Snapshot) -> tuple[NodeStatus, ...]:
    doubts = liveness.doubts(snapshot.nodes)
    ranks = Counter(one.host for one in snapshot.ranks)
    return tuple(
        NodeStatus(
            node.node,
            node.host,
            liveness.of_node(node, doubts.get(node.host, Doubt.NONE)).value,
            ranks[node.host],
            node.silent_for,
            node.pressure,
        )
        for node in snapshot.nodes
    )


def _laggards(
    ranks: Iterable[RankState],
    states: Mapping[int, str],
    own: float,
    open_incidents: tuple[OpenIncident, ...],
) -> tuple[Laggard, ...]:
    """Return the blamed ranks, then those that need most time of their own."""
    blamed = {who.rank: who for one in open_incidents for who in one.verdict.culprits}
    slow = {
        one.rank: one
        for one in ranks
        if one.rank in blamed or (one.tempo.steps and one.tempo.own > _LAGS * own > 0)
    }
    worst = sorted(slow, key=lambda rank: (rank not in blamed, -slow[rank].tempo.own, rank))
    found: list[Laggard] = []
    for rank in worst[:MOST_LAGGARDS]:
        one, culprit = slow[rank], blamed.get(rank)
        line = one.tempo.place
        place = f"{line.file}:{line.line}" if line else ""
        if culprit and culprit.file:
            place = f"{culprit.file}:{culprit.line}"
        laggard = Laggard(
            rank=rank,
            host=one.host,
            state=states[rank],
            doing=culprit.doing if culprit else "",
            place=place,
            own_seconds=one.tempo.own,
            stalled_seconds=one.stalled_for,
            blamed=culprit is not None,
        )
        found.append(laggard)
    return tuple(found)
