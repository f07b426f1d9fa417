"""One rank as a person sees it, beside a healthy one."""

from msgspec import Struct

from unstuck.diagnose.job.standing import Job, Standing, survey
from unstuck.diagnose.stuck.host import explain_rank
from unstuck.diagnose.text import group_text
from unstuck.explain.view.doing_now import State, state_of
from unstuck.explain.view.stack_tree import stack_of
from unstuck.model.host import Pressure
from unstuck.model.neighbour import HostWait
from unstuck.model.rank import (
    CodeLine,
    Failure,
    GroupProgress,
    Operation,
    PointToPoint,
    Process,
    RankState,
    Tempo,
)
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Verdict

MOST_OPERATIONS = 24
_OTHERS_ASKED = 256


class OperationPair(Struct, frozen=True, omit_defaults=True):
    """One number of a group: what this rank ran there, and what the healthy one did."""

    number: int
    mine: Operation | None = None
    theirs: Operation | None = None

    @property
    def differs(self) -> bool:
        """Tell whether only one has it, or both have it but not the same or not as far."""
        if self.mine is None or self.theirs is None:
            return self.mine is not self.theirs
        return (self.mine.op, self.mine.sizes, self.mine.done) != (
            self.theirs.op,
            self.theirs.sizes,
            self.theirs.done,
        )


class GroupPair(Struct, frozen=True, omit_defaults=True):
    """One group of this rank and how far both are in it."""

    name: str
    text: str
    backend: str
    size: int
    enqueued: int
    completed: int
    their_enqueued: int | None = None
    """None where the healthy rank is no member."""
    their_completed: int | None = None
    timeout: float = 0.0
    operations: tuple[OperationPair, ...] = ()
    """Around the place where it stands, oldest first; empty where no recorder was read."""


class RankView(Struct, frozen=True, omit_defaults=True):
    """Everything about one rank."""

    rank: int
    host: str
    state: State
    doing: str
    """One phrase that reads on after "rank 2": `is asleep`; empty if nothing is known of it."""
    known: bool = True
    """False for a rank that was never seen."""
    pid: int = 0
    local_rank: int = 0
    step: int = 0
    phase: str = ""
    sections: tuple[str, ...] = ()
    section_left: float | None = None
    stalled_for: float = 0.0
    beat_age: float = 0.0
    process: Process | None = None
    stack: tuple[CodeLine, ...] = ()
    """The main thread, innermost first, as far out as it is known."""
    threads: tuple[str, ...] = ()
    """All threads as text, where a stack was taken."""
    healthy: int | None = None
    """The rank that it is compared with; None where there is none."""
    healthy_stack: tuple[CodeLine, ...] = ()
    groups: tuple[GroupPair, ...] = ()
    messages: tuple[PointToPoint, ...] = ()
    """Sends and receives that have not completed."""
    tempo: Tempo = Tempo()
    failure: Failure | None = None
    waiting: HostWait = HostWait()
    """Whom it waits for on its own host."""
    pressure: Pressure = Pressure()
    """On its host."""
    unobserved: str = ""
    blamed: bool = False


def view_rank(snapshot: Snapshot, rank: int, verdict: Verdict | None = None) -> RankView:
    """Show one rank beside a healthy one that is in the same groups.

    Example:
        view_rank(snapshot, 2, verdict).groups[0].operations
    """
    job = survey(snapshot)
    state = job.states.get(rank)
    blamed = {one.rank: one for one in verdict.culprits} if verdict else {}
    if state is None:
        doing = blamed[rank].doing if rank in blamed else "was never seen"
        return RankView(rank, "", State.MISSING, doing, known=False, blamed=rank in blamed)
    other = _healthy(job, state, set(blamed))
    pressure = next((n.pressure for n in snapshot.nodes if n.host == state.host), Pressure())
    doing = blamed[rank].doing if rank in blamed else _doing(job, state, pressure)
    slow = rank in blamed and verdict is not None and verdict.slowdown > 0
    return RankView(
        rank=rank,
        host=state.host,
        state=State.SLOW if slow else state_of(job, rank),
        doing=doing,
        pid=state.process.pid,
        local_rank=state.local_rank,
        step=state.step,
        phase=state.phase,
        sections=state.sections,
        section_left=state.section_left,
        stalled_for=state.stalled_for,
        beat_age=state.beat_age,
        process=state.process,
        stack=tuple(reversed(stack_of(state))),
        threads=state.threads,
        healthy=other.rank if other else None,
        healthy_stack=tuple(reversed(stack_of(other))) if other else (),
        groups=tuple(_pair(one, other) for one in state.groups),
        messages=state.p2p,
        tempo=state.tempo,
        failure=state.failure,
        waiting=state.waiting,
        pressure=pressure,
        unobserved=state.unobserved,
        blamed=rank in blamed,
    )


_PHRASES = {
    State.COLLECTIVE: "waits in an operation",
    State.STARTING: "is starting",
    State.DONE: "has ended in order",
    State.GONE: "has ended",
    State.STOPPED: "is stopped",
    State.SILENT: "is on a host that is not heard",
    State.UNSEEN: "cannot be observed",
}


def _doing(job: Job, state: RankState, pressure: Pressure) -> str:
    known = _PHRASES.get(state_of(job, state.rank))
    return known or explain_rank(state, pressure).culprit.doing


def _healthy(job: Job, state: RankState, blamed: set[int]) -> RankState | None:
    """Find a rank to compare with: alive, not blamed, in the same groups, recorder read."""
    mine = {one.name for one in state.groups}
    candidates = [
        one
        for one in job.live
        if one.rank != state.rank
        and one.rank not in blamed
        and job.standing(one.rank) is Standing.LIVE
    ]
    near = sorted(candidates, key=lambda one: abs(one.rank - state.rank))[:_OTHERS_ASKED]

    def fitness(one: RankState) -> tuple[int, bool, int]:
        shared = sum(group.name in mine for group in one.groups)
        return shared, one.recorder_age is not None, -abs(one.rank - state.rank)

    return max(near, key=fitness, default=None)


def _pair(mine: GroupProgress, other: RankState | None) -> GroupPair:
    same = (one for one in (other.groups if other else ()))
    theirs = next((one for one in same if (one.name, one.ranks) == (mine.name, mine.ranks)), None)
    return GroupPair(
        name=mine.name,
        text=group_text(mine.name, mine.description),
        backend=mine.backend,
        size=len(mine.ranks),
        enqueued=mine.enqueued,
        completed=mine.completed,
        their_enqueued=theirs.enqueued if theirs else None,
        their_completed=theirs.completed if theirs else None,
        timeout=mine.timeout,
        operations=_operations(mine, theirs),
    )


def _operations(mine: GroupProgress, theirs: GroupProgress | None) -> tuple[OperationPair, ...]:
    ours = {one.number: one for one in (*mine.recent, *mine.pending)}
    others = {one.number: one for one in (*theirs.recent, *theirs.pending)} if theirs else {}
    numbers = sorted({*ours, *others})
    # Around the first operation that this rank has not completed.
    place = next((i for i, number in enumerate(numbers) if number > mine.completed), len(numbers))
    first = max(0, min(place - MOST_OPERATIONS // 2, len(numbers) - MOST_OPERATIONS))
    return tuple(
        OperationPair(number, ours.get(number), others.get(number))
        for number in numbers[first : first + MOST_OPERATIONS]
    )
