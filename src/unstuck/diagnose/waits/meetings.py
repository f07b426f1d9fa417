"""Calls in which ranks meet without a collective: no recorder shows them, only the stack does.

`init_process_group`, `new_group` (through the store) and `monitored_barrier`. In the wait-for
graph they are operations like any other: whoever is inside waits for those who are expected there.
"""

from collections.abc import Iterable
from itertools import islice

from unstuck.diagnose.job.main_thread import BARRIER, in_barrier, store_call
from unstuck.diagnose.job.standing import Job, Standing
from unstuck.diagnose.waits.operations import Head
from unstuck.model.rank import RankState

INIT = "init_process_group"
MOST_UNSEEN = 64
"""So many of the ranks that never reported are named, however large the job says it is."""
NOT_YET = ("born", "start")
"""Phases of a rank that has not called `init_process_group`."""


def find_meetings(job: Job) -> dict[int, Head]:
    """Find the head of every living rank that waits in such a call."""
    inside: dict[str, list[RankState]] = {}
    for state in job.live:
        if state.phase == "init":
            inside.setdefault("init", []).append(state)
        elif state.stack and in_barrier(state):
            inside.setdefault("barrier", []).append(state)
        elif state.phase == "run" and store_call(state):
            inside.setdefault("store", []).append(state)
    heads: dict[int, Head] = {}
    for kind, states in inside.items():
        call = {"init": INIT, "barrier": BARRIER}.get(kind) or store_call(states[0])
        head = Head((kind, 0, -1, -1), call=call)
        heads.update(dict.fromkeys((state.rank for state in states), head))
    return heads


def absent_from(job: Job, head: Head, inside: Iterable[int]) -> list[int]:
    """List the ranks that are expected in a call and are not there."""
    here = set(inside)
    if head.call == INIT:
        late = [rank for rank in job.states if rank not in here and _has_yet_to_join(job, rank)]
        unseen = (rank for rank in range(job.snapshot.world_size) if rank not in job.states)
        return late + list(islice(unseen, MOST_UNSEEN))
    absent = {rank for rank in job.states if job.standing(rank) is not Standing.GONE} - here
    if head.call == BARRIER:
        # Which group it is for is not seen: only those whom every possible group waits for.
        for progress in job.states[min(here)].groups:
            if here < (members := set(progress.ranks)):
                absent &= members
    return sorted(absent)


def _has_yet_to_join(job: Job, rank: int) -> bool:
    state = job.states[rank]
    if state.phase in NOT_YET:
        return True
    unable = job.standing(rank) in (Standing.STOPPED, Standing.SILENT)
    if unable and state.phase in ("init", "exit"):
        return True
    return job.standing(rank) is Standing.GONE and not state.groups
