"""The members of groups apart from the ranks: with each of 100,000 they would fill the disk."""

from msgspec import Struct, structs

from unstuck.collect.parts import from_ranges, to_ranges
from unstuck.model.rank import RankState
from unstuck.model.snapshot import Snapshot

MOST_LISTED = 1 << 18
"""Members of groups that a snapshot lists, all ranks together."""


class Members(Struct, frozen=True):
    """Each list of members once, as ranges, and which of them the groups of a rank have."""

    lists: tuple[list[int], ...]
    of_ranks: dict[int, list[int]]


def are_many(snapshot: Snapshot) -> bool:
    """Tell whether the members are too many to be listed with each rank."""
    listed = sum(len(group.ranks) for state in snapshot.ranks for group in state.groups)
    return listed > MOST_LISTED


def take_out(snapshot: Snapshot) -> tuple[Members, Snapshot]:
    """Return the members of all groups, and the snapshot without them.

    Example:
        members, bare = take_out(snapshot)
        assert put_back(members, bare) == snapshot
    """
    known: dict[tuple[int, ...], int] = {}
    # Ranks share the lists of their groups, and the hash of a long one takes long.
    numbers: dict[int, int] = {}
    ranks: list[RankState] = []
    of_ranks: dict[int, list[int]] = {}
    for state in snapshot.ranks:
        for group in state.groups:
            if id(group.ranks) not in numbers:
                numbers[id(group.ranks)] = known.setdefault(group.ranks, len(known))
        of_ranks[state.rank] = [numbers[id(group.ranks)] for group in state.groups]
        bare = tuple(structs.replace(group, ranks=()) for group in state.groups)
        ranks.append(structs.replace(state, groups=bare))
    members = Members(tuple(to_ranges(one) for one in known), of_ranks)
    return members, structs.replace(snapshot, ranks=tuple(ranks))


def put_back(members: Members, snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with its members.

    Raises:
        ValueError: they are those of another one.
    """
    try:
        lists = [from_ranges(ranges) for ranges in members.lists]
        ranks = [
            structs.replace(
                state,
                groups=tuple(
                    structs.replace(group, ranks=lists[number])
                    for group, number in zip(
                        state.groups, members.of_ranks[state.rank], strict=True
                    )
                ),
            )
            for state in snapshot.ranks
        ]
    except (ConnectionError, LookupError) as error:
        raise ValueError("these members are not of this snapshot") from error
    return structs.replace(snapshot, ranks=tuple(ranks))
