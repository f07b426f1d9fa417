"""Is what is known of a rank from after it last moved?"""

from msgspec.structs import replace

from unstuck.diagnose.job.standing import Job
from unstuck.model.rank import RankState


def lacks_stack(state: RankState) -> bool:
    """Tell whether no stack was taken from outside since the rank last moved."""
    return state.stack_age is None or state.stack_age > state.stalled_for


def lacks_recorder(state: RankState) -> bool:
    """Tell whether the flight recorder was not read since the rank last moved."""
    return state.recorder_age is None or state.recorder_age > state.stalled_for


def own_exception(job: Job, state: RankState) -> RankState:
    """Return a rank without the exception that others are handling as well.

    A script may train inside an `except` from its first line on: then all ranks do.
    """
    if not state.handling:
        return state
    shared = any(one.handling == state.handling and one.rank != state.rank for one in job.live)
    return replace(state, handling="") if shared else state
