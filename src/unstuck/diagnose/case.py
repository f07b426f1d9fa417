"""One snapshot under judgement: what several rules of the ladder need, each worked out once."""

from functools import cached_property

from unstuck.diagnose.dead.deaths import Deaths, find_deaths
from unstuck.diagnose.finding import Finding
from unstuck.diagnose.job.patience import patience
from unstuck.diagnose.job.standing import Job
from unstuck.diagnose.thresholds import SUSPICION
from unstuck.diagnose.waits.graph import WaitGraph, build_graph
from unstuck.diagnose.waits.meetings import find_meetings
from unstuck.diagnose.waits.mismatch import find_mismatches
from unstuck.diagnose.waits.sinks import Sink, find_sinks
from unstuck.model.rank import RankState


class Case:
    """A surveyed job, with who died and who waits for whom."""

    def __init__(self, job: Job) -> None:
        self.job = job

    @cached_property
    def deaths(self) -> Deaths:
        """Who has died, failed or left."""
        return find_deaths(self.job)

    @cached_property
    def limit(self) -> float:
        """Seconds of waiting that are too long in this job."""
        return patience(self.job.snapshot)

    @cached_property
    def suspects(self) -> list[RankState]:
        """Living ranks that have waited in an operation for so long that it is worth a look."""
        stalled = [state for state in self.job.live if state.stalled_for >= SUSPICION]
        if not stalled:
            return []
        inside = find_meetings(self.job)
        return [state for state in stalled if state.in_flight or state.rank in inside]

    @cached_property
    def graph(self) -> WaitGraph:
        """Who waits for whom."""
        return build_graph(self.job)

    @cached_property
    def sinks(self) -> tuple[Sink, ...]:
        """Where the waiting ends."""
        return find_sinks(self.graph) if self.suspects else ()

    @cached_property
    def mismatches(self) -> tuple[Finding, ...]:
        """Members of one group that call different collectives under the same number."""
        return find_mismatches(self.graph, SUSPICION) if self.suspects else ()
