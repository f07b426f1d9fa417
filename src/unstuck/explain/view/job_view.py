"""The whole job as a person sees it."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from statistics import median
from typing import Any

from msgspec import Struct

from unstuck.diagnose.job.standing import Job, survey
from unstuck.diagnose.text import group_text, numbers_text
from unstuck.explain.view.doing_now import LETTERS, State, state_of
from unstuck.model.host import Pressure
from unstuck.model.liveness import Life, doubts, of_node
from unstuck.model.rank import RankState
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Verdict

SLOWEST = 20
MOST_GROUPS = 64


class HostView(Struct, frozen=True, omit_defaults=True):
    """One host: where its ranks begin in the grid, and how it is."""

    name: str
    first: int
    """The place of its first rank in `Grid.ranks`."""
    count: int
    life: Life = Life.PRESENT
    silent_for: float = 0.0
    pressure: Pressure = Pressure()


class Grid(Struct, frozen=True):
    """Every rank by host, in columns: small enough for 100,000 ranks."""

    ranks: tuple[int, ...]
    """Rank numbers, host by host."""
    states: str
    """One letter for each of `ranks`: see `doing_now.LETTERS`."""
    hosts: tuple[HostView, ...]


class GroupView(Struct, frozen=True, omit_defaults=True):
    """One process group and how far its members are."""

    name: str
    text: str
    """Its description, or `group 3`."""
    backend: str
    size: int
    members: str
    """Compressed: `0-7`."""
    least: int
    """Operations begun by the member that has begun the fewest; `most`: by the furthest one."""
    most: int
    completed: int
    """Completed by all members that are seen."""
    timeout: float = 0.0


class RankTime(Struct, frozen=True):
    """Where the time of one rank goes, in seconds a step."""

    rank: int
    host: str
    step: float
    own: float
    """Outside collectives."""

    @property
    def waiting(self) -> float:
        """Seconds of a step that it waits for others."""
        return max(0.0, self.step - self.own)


class TimeView(Struct, frozen=True, omit_defaults=True):
    """Where the time of the whole job goes; zeros while too few steps were seen."""

    unit: str = "step"
    """What is counted: `step`, or `collective` in a job without optimizer steps."""
    step: float = 0.0
    """Typical seconds of a step."""
    own: float = 0.0
    """Typical seconds of a step that a rank needs itself."""
    measured: int = 0
    """How many ranks this comes from."""
    slowest: tuple[RankTime, ...] = ()
    """The ranks that need most time of their own."""

    @property
    def waiting_share(self) -> float:
        """Share of a step, from 0 to 1, that the typical rank waits for others."""
        return max(0.0, 1 - self.own / self.step) if self.step else 0.0


class JobView(Struct, frozen=True, omit_defaults=True):
    """The whole job at one moment."""

    taken_at: float
    """Unix time by the hub's clock."""
    world_size: int
    attempt: int
    step: int
    """The furthest rank's."""
    grid: Grid
    counts: dict[State, int]
    groups: tuple[GroupView, ...]
    """The groups that are furthest apart first; at most `MOST_GROUPS`."""
    time: TimeView
    verdict: Verdict | None = None
    culprits: tuple[int, ...] = ()
    victims: str = ""
    """Compressed: `ranks 0,1,3`."""
    notices: tuple[Any, ...] = ()
    paused_left: float = 0.0


def view_job(
    snapshot: Snapshot, verdict: Verdict | None = None, notices: Iterable[Any] = ()
) -> JobView:
    """Show the whole job at one moment; some 0.3 s for 100,000 ranks.

    Example:
        view_job(snapshot).counts[State.COMPUTING]
    """
    job = survey(snapshot)
    culprits = tuple(one.rank for one in verdict.culprits) if verdict else ()
    slow = frozenset(culprits if verdict and verdict.slowdown else ())
    states = {rank: state_of(job, rank) for rank in _everybody(job)}
    for rank in slow & states.keys():
        states[rank] = State.SLOW
    return JobView(
        taken_at=snapshot.taken_at,
        world_size=max(snapshot.world_size, len(job.states)),
        attempt=snapshot.attempt,
        step=max((state.step for state in snapshot.ranks), default=0),
        grid=_grid(job, states),
        counts=dict(Counter(states.values())),
        groups=_groups(snapshot.ranks),
        time=_time(snapshot.ranks),
        verdict=verdict,
        culprits=culprits,
        victims=numbers_text(verdict.victims) if verdict and verdict.victims else "",
        notices=tuple(notices),
        paused_left=snapshot.controls.paused_left,
    )


def _everybody(job: Job) -> Iterable[int]:
    """List all ranks of the job, also those that were never seen."""
    wanted = job.snapshot.world_size
    if wanted <= len(job.states):
        return job.states
    return sorted({*job.states, *range(wanted)})


def _grid(job: Job, states: dict[int, State]) -> Grid:
    by_host: defaultdict[str, list[int]] = defaultdict(list)
    for rank in states:
        by_host[job.host(rank)].append(rank)
    # Hosts in the order of their first rank; those never seen last.
    order = sorted(by_host, key=lambda host: (not host, by_host[host][0]))
    doubt = doubts(job.snapshot.nodes)
    nodes = {node.host: node for node in job.snapshot.nodes}
    hosts: list[HostView] = []
    ranks: list[int] = []
    for name in order:
        node, first, count = nodes.get(name), len(ranks), len(by_host[name])
        ranks += by_host[name]
        if node is None:
            hosts.append(HostView(name, first, count))
            continue
        life = of_node(node, doubt[name]) if name in doubt else of_node(node)
        hosts.append(HostView(name, first, count, life, node.silent_for, node.pressure))
    letters = "".join([LETTERS[states[rank]] for rank in ranks])
    return Grid(tuple(ranks), letters, tuple(hosts))


def _groups(states: Iterable[RankState]) -> tuple[GroupView, ...]:
    found: dict[tuple[str, int, int], list[Any]] = {}
    for state in states:
        for one in state.groups:
            first = one.ranks[0] if one.ranks else -1
            known = found.setdefault(
                (one.name, len(one.ranks), first), [one, one.enqueued, one.enqueued, one.completed]
            )
            known[1] = min(known[1], one.enqueued)
            known[2] = max(known[2], one.enqueued)
            known[3] = min(known[3], one.completed)
    apart = sorted(found.values(), key=lambda one: (one[1] - one[2], -len(one[0].ranks)))
    return tuple(
        GroupView(
            one.name,
            group_text(one.name, one.description),
            one.backend,
            len(one.ranks),
            numbers_text(one.ranks),
            *progress,
            timeout=one.timeout,
        )
        for one, *progress in apart[:MOST_GROUPS]
    )


def _time(states: Iterable[RankState]) -> TimeView:
    known = [state for state in states if state.tempo.steps]
    if not known:
        return TimeView()
    slowest = sorted(known, key=lambda state: -state.tempo.own)[:SLOWEST]
    return TimeView(
        unit=known[0].tempo.unit,
        step=median(state.tempo.step for state in known),
        own=median(state.tempo.own for state in known),
        measured=len(known),
        slowest=tuple(RankTime(s.rank, s.host, s.tempo.step, s.tempo.own) for s in slowest),
    )
