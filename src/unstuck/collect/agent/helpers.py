"""Which watched processes are not ranks, although they have a rank's number.

A wrapper script may run a preflight check, and a training script another Python, before the
training joins its process groups. Such a process is shown as the rank while there is no better
one; its end is not the rank's end while the process above it lives.
"""

from collections.abc import Callable, Collection
from typing import Protocol

from unstuck.observe.node.process.procfs import lives


class Candidate(Protocol):
    """What is asked of a `RankWatcher`."""

    @property
    def rank(self) -> int:
        """Its number."""
        ...

    @property
    def pid(self) -> int:
        """Its process."""
        ...

    @property
    def top(self) -> int:
        """The highest process with this number; equal for all that one launch started."""
        ...

    @property
    def joined(self) -> bool:
        """It has called `init_process_group`."""
        ...

    @property
    def alive(self) -> bool:
        """Its end was not seen yet."""
        ...

    @property
    def is_over(self) -> bool:
        """It has ended or is about to."""
        ...


def helpers(
    candidates: Collection[Candidate], lives: Callable[[int], bool] = lives
) -> frozenset[int]:
    """Return the processes that are no ranks, by pid."""
    doubtful = [one for one in candidates if not one.joined]
    return frozenset(one.pid for one in doubtful if _is_helper(one, candidates, lives))


def _is_helper(
    one: Candidate, candidates: Collection[Candidate], lives: Callable[[int], bool]
) -> bool:
    family = [o for o in candidates if o is not one and o.rank == one.rank and o.top == one.top]
    if any(other.joined and (other.alive or one.is_over) for other in family):
        return True
    if one.pid == one.top:
        return False
    if any(other.pid == one.top and other.alive for other in family):
        return True
    return one.is_over and lives(one.top)
