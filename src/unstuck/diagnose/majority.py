"""Who is the odd one out: the smaller side is to blame, and a tie blames both."""

from collections.abc import Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

S = TypeVar("S")


class Vote(NamedTuple, Generic[S]):
    """Sides that disagree, the largest first."""

    sides: list[tuple[S, list[int]]]
    tie: bool
    """No side is larger than all others: either may be the wrong one."""

    @property
    def odd(self) -> list[tuple[S, list[int]]]:
        """The sides that may be wrong."""
        return self.sides if self.tie else self.sides[1:]

    @property
    def ranks(self) -> list[int]:
        """The ranks that may be wrong."""
        return sorted(rank for _, ranks in self.odd for rank in ranks)


def vote(sides: Mapping[S, Sequence[int]], extra: S | None = None) -> Vote[S]:
    """Let the ranks of each side vote; `extra` is a side with one more member that is not known.

    Example:
        >>> vote({"all_reduce": [0, 1, 3], "broadcast": [2]}).ranks
        [2]
    """
    votes = {side: len(ranks) + (side == extra) for side, ranks in sides.items()}
    ordered = sorted(sides, key=lambda side: (-votes[side], list(sides[side])))
    tie = len(ordered) < 2 or votes[ordered[0]] == votes[ordered[1]]
    return Vote([(side, list(sides[side])) for side in ordered], tie)
