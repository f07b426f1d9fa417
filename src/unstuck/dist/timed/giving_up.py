"""Giving up a group: ending what hangs on it, on this rank and on the others."""

from typing import Any

from unstuck.dist.base import groups, held, sockets, waiting
from unstuck.dist.base.groups import Group
from unstuck.dist.missing import rollcall

PATIENCE = 2.0
"""Seconds for hung operations to end once their sockets are shut; it takes milliseconds."""


def give_up(group: Any = None) -> None:
    """End every unfinished operation of a group, on this rank and thereby on the others.

    Afterwards none of them writes to a tensor any more. The group cannot be used again:
    `rebuild()` makes a new one.
    """
    resolved = groups.resolve(group)
    if resolved is not None:
        give_up_group(resolved)


def give_up_group(group: Group, *, announce: bool = True) -> None:
    """Shut the sockets of a group, and wait until what hung on them has ended."""
    if held.given_up(group):
        return
    unfinished = held.unfinished(group.name)
    if announce:
        held.announce(group.name)
    if group.backend("cpu") == "gloo":
        sockets.shut(group.name, len(group.ranks))
    if any(group.backend(device) not in ("", "gloo") for device in ("cuda", "xpu")):
        group.pg.abort()
    roll = rollcall.current()
    if announce and roll is not None and len(group.ranks) <= rollcall.MOST_ASKED:
        # A rank that waits for a third one does not notice that this one has hung up.
        others = [rank for rank in group.ranks if rank != group.rank]
        roll.tell_given_up(group.name, others, 0.2)
    for work in unfinished:
        waiting.end_of(work.waiter, PATIENCE)
    held.give_up(group)


def join_roll_call(pg: Any, store: Any) -> None:
    """Join the roll call of a default group; give up its groups when another rank does."""

    def given_up_elsewhere(name: str) -> None:
        group = groups.of_name(name)
        if group is not None:
            give_up_group(group, announce=False)

    rollcall.join(pg, store, given_up_elsewhere)
