"""Making a group new in place: agree who takes part, then connect again."""

import json
import sys
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal, NamedTuple

import torch
from torch.distributed import distributed_c10d as c10d

from unstuck.dist import groups, held, leaving, sockets
from unstuck.dist.groups import Group
from unstuck.dist.limits import Limit, seconds_of
from unstuck.dist.peers import listed
from unstuck.errors import RebuildError, UserError

Survivors = Sequence[int] | Literal["present"] | None
_PREFIX = "unstuck/rebuild"


class _Base(NamedTuple):
    """The store of the first default group, under which all later ones meet."""

    store: Any
    pg: Any


_base: _Base | None = None
_generation: dict[str, int] = {}


def rebuild(
    group: Any = None,
    survivors: Survivors = None,
    *,
    timeout: Limit = 30,
    settle: Limit = 1,
) -> Any:
    """Make a group new and return it; every rank that takes part calls it.

    Whatever is under way on the old group is given up first. Rebuilding the default group ends
    all other groups too, as `destroy_process_group()` does; ranks are then numbered anew in the
    old order. What holds the old group (DDP, FSDP, device meshes) has to be made again.

    Args:
        group: the group; None for the default one.
        survivors: global ranks to go on with; None for all; "present" for whoever calls this
            until nobody new came for `settle` seconds.
        timeout: seconds or timedelta for all of it.
        settle: only with "present".

    Raises:
        RebuildError: not everybody came in time, ranks want different survivors, or the store
            that ranks meet in cannot be reached.

    Example:
        except dist.CollectiveTimeout as error:
            dist.rebuild(survivors=error.present)
    """
    limit, quiet = seconds_of(timeout), seconds_of(settle, "settle")
    plan = plan_of(group)
    old, base = plan.old, plan.base
    wanted = _checked(old, survivors)
    until = time.monotonic() + limit
    give_up(plan)
    key = f"{_PREFIX}/{'world' if plan.whole else old.name}"
    agreed = _agree(base, key, old, wanted, until, quiet)
    if old.rank not in agreed.ranks:
        raise RebuildError(
            f"the group was rebuilt without rank {old.rank}, with ranks {listed(agreed.ranks)}",
            hint="unstuck.dist.leave() and end this process",
        )
    store = c10d.PrefixStore(f"{key}/{agreed.round}", base)
    return connect(plan, agreed.ranks, store, until)


class Plan(NamedTuple):
    """How the group was made, to make it again."""

    old: Group
    base: Any
    whole: bool
    """It is the default group."""
    backend: str
    timeout: timedelta


_lost: Plan | None = None
"""The default group, when making it new failed after the old one was gone."""


def plan_of(group: Any) -> Plan:
    """Note how a group was made; None: the default one."""
    if group is None and not c10d.is_initialized() and _lost is not None:
        return _lost
    old = groups.resolve(group)
    if old is None:
        raise UserError("group: this rank is no member of it")
    backend = str(c10d._world.pg_map[old.pg][0])
    own: Any = old.pg._get_backend(torch.device("cpu" if old.backend("cpu") else "cuda"))
    whole = old.pg is c10d._get_default_group()
    return Plan(old, _base_store(), whole, backend, own.options._timeout)


def _checked(group: Group, survivors: Survivors) -> list[int] | None:
    """Return who must come; None: whoever does."""
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
        raise ValueError(f"survivors: rank {group.rank}, which calls, is not among them")
    return ranks


def _base_store() -> Any:
    global _base
    default = c10d._get_default_group()
    if _base is None or _base.pg is not default:
        _base = _Base(c10d._get_default_store(), default)
        _generation.clear()
    return _base.store


def give_up(plan: Plan) -> None:
    """End what is under way on the group; with the default one all others end too."""
    if plan.whole and not c10d.is_initialized():
        return
    going = [groups.describe(pg) for pg in list(c10d._world.pg_map)] if plan.whole else [plan.old]
    for each in going:
        if sockets.known(each.name) or held.unfinished(each.name):
            leaving.give_up_group(each)


class _Agreed(NamedTuple):
    ranks: list[int]
    round: int


def _agree(
    base: Any, key: str, old: Group, wanted: list[int] | None, until: float, quiet: float
) -> _Agreed:
    """Meet the others in the store. A thread of its own calls it: its calls may never return."""
    result: list[_Agreed | Exception] = []

    def meet() -> None:
        try:
            store = c10d.PrefixStore(key, base.clone())
            result.append(_Meeting(store, old, wanted, until, quiet).agree())
        except Exception as error:
            result.append(error)

    thread = threading.Thread(target=meet, name="unstuck-rebuild", daemon=True)
    thread.start()
    thread.join(timeout=max(0.0, until - time.monotonic()) + 1.0)
    if not result:
        raise RebuildError("the store that the ranks meet in does not answer", hint=_LOST)
    if isinstance(result[0], RebuildError):
        raise result[0]
    if isinstance(result[0], Exception):
        raise RebuildError(f"the store cannot be used: {result[0]}", hint=_LOST) from result[0]
    return result[0]


_LOST = "without torchrun the store lives in rank 0 and ends with it: then restart the job"


class _Meeting:
    """Rounds in the store: ranks join one, its first rank closes it with the list of members."""

    def __init__(
        self, store: Any, old: Group, wanted: list[int] | None, until: float, quiet: float
    ) -> None:
        self._store = store
        self._old = old
        self._wanted = wanted
        self._until = until
        self._quiet = quiet

    def agree(self) -> _Agreed:
        """Join the round that is open; one that is closed was joined by others."""
        number = _generation.get(self._old.name, 0)
        while True:
            if self._store.check([f"{number}/members"]):
                said: Any = json.loads(self._store.get(f"{number}/members"))
                members = said if isinstance(said, list) and self._old.rank not in said else []
            else:
                members = self._join(number)
            number += 1
            if members:
                _generation[self._old.name] = number
                return _Agreed(members, number)

    def _join(self, number: int) -> list[int]:
        own = str(self._old.rank)
        wish = json.dumps(self._wanted)
        self._store.set(f"{number}/join/{own}", wish)
        leads = self._store.compare_set(f"{number}/leader", "", own).decode() == own
        joined: set[int] = set()
        changed = time.monotonic()
        while not self._store.check([f"{number}/members"]):
            now = time.monotonic()
            if now >= self._until:
                self._call_off(number, self._joined(number))
            elif leads:
                came = self._joined(number)
                changed = changed if came == joined else now
                joined = came
                if changed == now:
                    self._compare(number, joined)
                if self._complete(joined, changed, now):
                    self._close(number, joined)
            time.sleep(0.002)
        said: Any = json.loads(self._store.get(f"{number}/members"))
        if isinstance(said, str):
            raise RebuildError(said, hint="call rebuild() with the same survivors in all of them")
        return [int(rank) for rank in said]

    def _joined(self, number: int) -> set[int]:
        return {rank for rank in self._old.ranks if self._store.check([f"{number}/join/{rank}"])}

    def _complete(self, joined: set[int], changed: float, now: float) -> bool:
        if self._wanted is None:
            return len(joined) == len(self._old.ranks) or now - changed > self._quiet
        return joined >= set(self._wanted)

    def _close(self, number: int, joined: set[int]) -> None:
        members = sorted(joined if self._wanted is None else self._wanted)
        self._store.compare_set(f"{number}/members", "", json.dumps(members))

    def _compare(self, number: int, joined: set[int]) -> None:
        """Call the round off when ranks want different things of it."""
        wishes = {
            rank: json.loads(self._store.get(f"{number}/join/{rank}")) for rank in sorted(joined)
        }
        if any(wish != self._wanted for wish in wishes.values()):
            said = "ranks want different survivors: " + "; ".join(
                f"rank {rank} wants {wish if wish is not None else 'whoever is present'}"
                for rank, wish in wishes.items()
            )
            self._store.compare_set(f"{number}/members", "", json.dumps(said))

    def _call_off(self, number: int, joined: set[int]) -> None:
        """End a round for all who wait in it: none of them would get what it waits for."""
        absent = set(self._wanted or self._old.ranks) - joined
        said = f"not every rank came to rebuild the group in time: {listed(absent)} missing"
        self._store.compare_set(f"{number}/members", "", json.dumps(said))


def connect(plan: Plan, ranks: list[int], store: Any, until: float) -> Any:
    """Make the group of these ranks, who all call it, and return it."""
    # gloo waits five times this long for its connections; all ranks are here, it takes 20 ms.
    patience = timedelta(seconds=max(1.0, (until - time.monotonic()) / 5))
    try:
        made = (_new_world if plan.whole else _new_group)(plan, ranks, store, patience)
    except RuntimeError as error:
        raise RebuildError(
            f"the ranks met, but could not connect: {error}", hint="call rebuild() again"
        ) from error
    c10d._set_pg_timeout(plan.timeout, made)
    return made


def _new_world(plan: Plan, ranks: list[int], store: Any, patience: timedelta) -> Any:
    global _base, _lost
    if c10d.is_initialized():
        leaving.end()
    _lost = plan
    _take_back_excepthook()
    c10d.init_process_group(
        plan.backend,
        timeout=patience,
        store=store,
        rank=ranks.index(plan.old.rank),
        world_size=len(ranks),
    )
    _lost = None
    made: Any = c10d._get_default_group()
    _base = _Base(plan.base, made)
    return made


def _take_back_excepthook() -> None:
    """Undo torch's prefix of tracebacks: each new default group would add another one."""
    hook: Any = sys.excepthook
    if getattr(hook, "__name__", "") == "_distributed_excepthook":
        cells = dict(zip(hook.__code__.co_freevars, hook.__closure__ or (), strict=True))
        if "old_hook" in cells:
            sys.excepthook = cells["old_hook"].cell_contents


def _new_group(plan: Plan, ranks: list[int], store: Any, patience: timedelta) -> Any:
    """Make a group of its members alone; torch's `new_group` wants every rank of the world."""
    old = plan.old
    name = c10d.GroupName(f"{old.name}~{_generation.get(old.name, 0)}")
    made, _ = c10d._new_process_group_helper(
        len(ranks),
        ranks.index(old.rank),
        ranks,
        c10d.Backend(plan.backend),
        store,
        name,
        timeout=patience,
        group_desc=str(old.pg.group_desc),
    )
    c10d._world.pg_group_ranks[made] = {rank: place for place, rank in enumerate(ranks)}
    leaving.end(old.pg)
    return made
