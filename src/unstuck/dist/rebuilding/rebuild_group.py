"""`rebuild()`: make a group new in place. Its ranks agree on who takes part, then reconnect."""

import json
import time
from collections.abc import Sequence
from typing import Any, Literal

from torch.distributed import distributed_c10d as c10d

from unstuck.dist.base.groups import Group
from unstuck.dist.base.limits import Limit, seconds_of
from unstuck.dist.base.peers import listed
from unstuck.dist.rebuilding.connecting import Plan, connect, generation, give_up, plan_of
from unstuck.dist.rebuilding.meeting import Meeting, Outcome, within
from unstuck.dist.rebuilding.notes import StoreNotes
from unstuck.errors import RebuildError

Survivors = Sequence[int] | Literal["present"] | None


def rebuild(
    group: Any = None,
    survivors: Survivors = None,
    *,
    timeout: Limit = 30,
    settle: Limit = 1,
) -> Any:
    """Make a group new and return it; every rank that takes part calls this.

    Unfinished operations of the old group are given up first. Rebuilding the default group ends
    all other groups too, as `destroy_process_group()` does; ranks are then renumbered in the old
    order. Whatever holds the old group (DDP, FSDP, device meshes) has to be created again.

    Args:
        group: the group; None for the default group.
        survivors: global ranks to continue with; None for all; "present" for every rank that calls
            this before no new one has arrived for `settle` seconds.
        timeout: seconds or timedelta for all of it.
        settle: only with "present".

    Raises:
        RebuildError: not every rank arrived in time, the ranks want different survivors, or the
            store through which they meet cannot be reached.

    Example:
        except dist.CollectiveTimeout as error:
            dist.rebuild(survivors=error.present)
    """
    limit, quiet = seconds_of(timeout), seconds_of(settle, "settle")
    plan = plan_of(group)
    rule = _Rule(plan.old, _checked(plan.old, survivors), quiet)
    until = time.monotonic() + limit
    give_up(plan)
    place = f"rebuild/{'world' if plan.whole else plan.old.name}"
    members = within(until - time.monotonic() + 1.0, lambda: _agree(plan, place, rule, until))
    if plan.old.rank not in members:
        raise RebuildError(
            f"the group was rebuilt without rank {plan.old.rank}, from ranks {listed(members)}",
            hint="unstuck.dist.leave() and end this process",
        )
    store = c10d.PrefixStore(f"unstuck/{place}/{generation[plan.old.name]}", plan.base)
    return connect(plan, members, store, until)


def _checked(group: Group, survivors: Survivors) -> list[int] | None:
    """Return the ranks that must take part; None: whichever do."""
    if isinstance(survivors, str):
        if survivors != "present":
            raise ValueError(f'survivors must be ranks, None or "present", not {survivors!r}')
        return None
    if survivors is None:
        return list(group.ranks)
    ranks = sorted({int(rank) for rank in survivors})
    strangers = set(ranks) - set(group.ranks)
    if strangers:
        raise ValueError(f"survivors: {listed(strangers)} not in the group")
    if group.rank not in ranks:
        raise ValueError(f"survivors: the calling rank {group.rank} is not among them")
    return ranks


def _agree(plan: Plan, place: str, rule: "_Rule", until: float) -> list[int]:
    """Join the first round that is open; return its members, or those that went on without us."""
    rank = plan.old.rank
    meeting = Meeting(StoreNotes(plan.base, place), rank, plan.old.ranks, rule, until)
    number = generation.get(plan.old.name, 0)
    # A round that was called off, or that this rank failed to connect in, no longer counts.
    while isinstance(outcome := meeting.outcome(number), str) or (outcome and rank in outcome):
        number += 1
    outcome = outcome or meeting.join(number)
    if isinstance(outcome, str):
        raise RebuildError(outcome, hint="call rebuild() with the same survivors on all of them")
    generation[plan.old.name] = number + 1
    return outcome


class _Rule:
    """All wanted ranks must join; or, if any are welcome, none may have joined for a while."""

    def __init__(self, group: Group, wanted: list[int] | None, quiet: float) -> None:
        self._all = group.ranks
        self._wanted = wanted
        self._quiet = quiet
        self.wish = json.dumps(wanted)

    def decide(self, joined: dict[int, str], quiet: float) -> Outcome | None:
        """See `Rule`."""
        if any(wish != self.wish for wish in joined.values()):
            return "the ranks want different survivors: " + "; ".join(
                f"rank {rank} wants {'whichever are present' if wish == 'null' else wish}"
                for rank, wish in joined.items()
            )
        if self._wanted is not None:
            return self._wanted if joined.keys() >= set(self._wanted) else None
        return sorted(joined) if len(joined) == len(self._all) or quiet > self._quiet else None

    def decide_late(self, joined: dict[int, str]) -> Outcome:
        """See `Rule`."""
        absent = set(self._wanted or self._all) - joined.keys()
        missing = f": {listed(absent)} missing" if absent else ""
        return f"not every rank arrived in time to rebuild the group{missing}"
