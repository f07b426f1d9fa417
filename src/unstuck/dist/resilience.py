"""`@unstuck.resilient`: survivors of a loss go on in the same processes, with fewer ranks.

When a rank dies, stops or hangs, the others leave the collective that waits for it, agree on who is
left, make the process groups new, and call the training function again, which goes on from the
newest state any of them has. A rank that comes back is let in at the end of a step.
"""

import contextlib
import functools
import itertools
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

from torch.distributed import distributed_c10d as c10d

from unstuck.dist import held, leaving, rebuilding, respawned, rollcall, sockets
from unstuck.dist.answers import state_of
from unstuck.dist.groups import describe
from unstuck.dist.limits import Limit, seconds_of
from unstuck.dist.membership import LeftOutError, Membership, OverError
from unstuck.dist.notes import HubNotes, Notes, StoreNotes, at_hub
from unstuck.dist.peers import listed
from unstuck.dist.snapshots import Snapshots
from unstuck.errors import RebuildError
from unstuck.observe.probe import callbacks, guard
from unstuck.observe.probe.deadlines import tell
from unstuck.observe.probe.peerloss import tells_of_a_peer

P = ParamSpec("P")
R = TypeVar("R")
FATAL = frozenset(
    {
        "network-partition",
        "node-failure",
        "process-crash",
        "out-of-memory",
        "process-stopped",
        "host-deadlock",
        "rank-left-early",
    }
)
"""Causes after which a rank will not come by itself; for the others patience decides."""
_LOOK_EVERY = 0.5
_ROUNDS = 4
"""Ranks may be lost while the others connect: so many rounds the time for it is enough for."""
_numbers = itertools.count()
"""All ranks call their resilient functions in the same order."""


class _InviteError(RuntimeError):
    """Raised at the end of a step, to let a rank in that is back."""


class Resilient:
    """What a resilient training function gets as its first argument."""

    def __init__(self, settings: "_Settings") -> None:
        self._settings = settings
        self._notes = _notes()
        self._membership = Membership(self._notes, *respawned.seat())
        self.outside = respawned.is_respawned()
        """This rank was started again, and the others have not let it in so far."""
        self._address = sockets.address_of(describe(c10d._get_default_group()).name) or "127.0.0.1"
        self._snapshots = Snapshots()
        self._stateful: dict[str, Any] = {}
        self._moved = time.monotonic()
        self._next = 0
        self._invited: list[int] = []
        self._accused: set[int] = set()
        self.losses = 0
        """How often the world has changed."""

    @property
    def seat(self) -> int:
        """The rank that this process began with; `dist.get_rank()` may change."""
        return self._membership.seat

    @property
    def members(self) -> tuple[int, ...]:
        """The seats of the ranks that train now."""
        return self._membership.members

    @property
    def share(self) -> float:
        """The part of the first world that trains now: what is left of the global batch."""
        return len(self.members) / self._membership.size

    def steps(self, stop: int, **stateful: Any) -> Iterator[int]:
        """Count the steps up to `stop`, from where the job was before a loss.

        Before the first one the state of everything named (`model=`, `optimizer=`, whatever has
        `state_dict()` and `load_state_dict()`) is brought back; every so many steps it is copied.

        Example:
            for step in run.steps(1000, model=model, optimizer=optimizer):
                train_one(step)
        """
        self._stateful = stateful
        self._next = self._snapshots.agree(stateful)
        self._moved = time.monotonic()
        while self._next < stop:
            yield self._next
            self._next += 1
            self._moved = time.monotonic()
            if self._invited:
                self._snapshots.take(self._next, stateful)
                raise _InviteError(f"rank {listed(self._invited)} is back")
            if self._next % self._settings.every == 0:
                self._snapshots.take(self._next, stateful)

    @contextlib.contextmanager
    def marked(self) -> Generator[None]:
        """Leave a sign for the guard of this rank that it may be started again.

        Whatever ends the rank, be it an exception of the script, leaves the sign where it is; not
        so when the ranks that are left cannot go on.
        """
        mark = guard.mark_path(self.seat)
        if mark:
            with contextlib.suppress(OSError), open(mark, "w"):
                pass
        try:
            yield
        except Exception as error:
            if isinstance(error.__cause__, RebuildError) or isinstance(error, RebuildError):
                _remove(mark)
            raise
        _remove(mark)

    def finish(self) -> None:
        """Tell those who wait outside that the training is over."""
        if self._looks_out():
            with contextlib.suppress(Exception):
                self._membership.close()

    # --- noticing a loss

    @contextlib.contextmanager
    def watching(self) -> Generator[None]:
        """Leave the collective when the watchers name a rank that will not come."""
        over = threading.Event()
        callback = callbacks.on_verdict(self._hear)
        looker = threading.Thread(target=self._look, args=(over,), daemon=True)
        self._moved = time.monotonic()
        if (roll := _roll()) is not None:
            roll.prepare(self._neighbours())
        looker.start()
        try:
            yield
        finally:
            over.set()
            callback.close()

    def _hear(self, verdict: Any) -> None:
        ranks = {int(one["rank"]) for one in verdict.get("culprits", ())}
        if verdict.get("cause") not in FATAL or self.seat in ranks:
            return
        lost = ranks & set(self.members)
        if lost:
            self._accused |= lost
            leaving.give_up()

    def _look(self, over: threading.Event) -> None:
        """Let in who is back, and end a wait that lasts longer than the user has patience for."""
        patience = self._settings.patience
        notes: Notes | None = None
        while not over.wait(_LOOK_EVERY):
            try:
                if patience and time.monotonic() - self._moved > patience:
                    leaving.give_up()
                    return
                if self._looks_out():
                    notes = notes or self._notes()
                    self._invited = self._membership.knocking(notes)
            except Exception:
                return

    def _looks_out(self) -> bool:
        """Tell whether this rank is the one that lets others in."""
        return len(self.members) < self._membership.size and self.seat == self.members[0]

    # --- going on

    def is_loss(self, error: BaseException) -> bool:
        """Tell whether an exception comes from a change of the world, not from the script."""
        if isinstance(error, _InviteError):
            return True
        if not isinstance(error, RuntimeError):
            return False
        given_up = c10d.is_initialized() and held.given_up(describe(c10d._get_default_group()))
        return given_up or tells_of_a_peer(str(error))

    def regroup(self) -> None:
        """Go on with whoever is there: agree on the members and connect them."""
        began = time.monotonic()
        before = self.members
        plan = rebuilding.plan_of(None)
        lost = self._losses()
        rebuilding.give_up(plan)
        inside = self._meet(lost)
        while not self._connect(plan, began):
            # One of those who came is lost too: whoever is left meets again.
            inside = self._meet(set[int]) and inside
        self.losses += 1
        self._accused.clear()
        self._invited.clear()
        # Who comes from outside does not know with whom the others were.
        if inside and self.seat == next(seat for seat in self.members if seat in before):
            with contextlib.suppress(Exception):
                self._membership.forget_knocks()
            self._say(before, time.monotonic() - began)

    def _connect(self, plan: rebuilding.Plan, began: float) -> bool:
        """Connect the members; False: that failed, and there is time for another round."""
        whole = self._settings.timeout
        seconds = whole / _ROUNDS
        old = replace(plan.old, rank=self.seat, ranks=tuple(range(self._membership.size)))
        try:
            store = self._membership.store(self._address, seconds)
            until = time.monotonic() + seconds
            rebuilding.connect(plan._replace(old=old), list(self.members), store, until)
        except RebuildError:
            if time.monotonic() - began > whole:
                raise
            return False
        return True

    def _meet(self, lost: Callable[[], set[int]]) -> bool:
        """Agree on the members; False: this rank was outside and has been let in."""
        settings = self._settings
        inside = not self.outside
        while True:
            try:
                if self.outside:
                    self._membership.wait_outside(settings.back)
                    self.outside = False
                self._membership.meet(settings.min_ranks, settings.settle, settings.timeout, lost)
            except LeftOutError:
                tell(f"rank {self.seat} was left behind by the others and waits to be let in")
                self.outside, inside = True, False
            else:
                return inside

    def _losses(self) -> Callable[[], set[int]]:
        """Give how to see who is lost: whom the watchers named, and processes of this host.

        One that was killed is still there when the others hear of it, and gone a moment later.
        """
        accused = self._accused - {self.seat}
        roll = _roll()
        known = [(self.members[rank], roll.record(rank)) for rank in self._neighbours() if roll]

        def look() -> set[int]:
            states = {seat: state_of(record)[0] for seat, record in known if record}
            return accused | {seat for seat in states if states[seat] in ("gone", "stopped")}

        return look

    def _neighbours(self) -> list[int]:
        """Return the other ranks of this host, of whose processes the kernel can tell."""
        said = os.environ.get("LOCAL_WORLD_SIZE", "")
        here = max(1, int(said)) if said.isdecimal() else self._membership.size
        return [
            rank
            for rank, seat in enumerate(self.members)
            if seat != self.seat and seat // here == self.seat // here
        ]

    def _say(self, before: tuple[int, ...], took: float) -> None:
        left, came = set(before) - set(self.members), set(self.members) - set(before)
        changes = [f"without rank {listed(left)}"] if left else []
        if came:
            changes.append(f"rank {listed(came)} is back")
        change = ", ".join(changes) or "all are still here"
        count = f"{len(self.members)} of {self._membership.size} ranks"
        tell(f"the training goes on with {count} ({change}), connected again in {took:.1f} s")


class _Settings:
    def __init__(
        self,
        min_ranks: int,
        checkpoint: int,
        patience: Limit | None,
        settle: Limit,
        timeout: Limit,
        back: Limit,
    ) -> None:
        if min_ranks < 1:
            raise ValueError(f"min_ranks must be 1 or more, not {min_ranks}")
        if checkpoint < 1:
            raise ValueError(f"checkpoint: steps between two copies, 1 or more, not {checkpoint}")
        self.min_ranks = min_ranks
        self.every = checkpoint
        self.patience = seconds_of(patience, "patience") if patience is not None else 0.0
        self.settle = seconds_of(settle, "settle")
        self.timeout = seconds_of(timeout)
        self.back = seconds_of(back, "back")


def resilient(
    *,
    min_ranks: int = 1,
    checkpoint: int = 10,
    patience: Limit | None = None,
    settle: Limit = 1,
    timeout: Limit = 60,
    back: Limit = 3600,
) -> Callable[[Callable[..., R]], Callable[..., R | None]]:
    """Let a training function go on with the ranks that are left when some are lost.

    The function gets a `Resilient` first and is called again after every loss: it makes its model,
    DDP and loader anew, for the rank and world size of that moment. `run.steps()` brings the state
    back and counts on. The default group must exist before, made with `unstuck.dist` imported.

    A rank that the others let in no more, because they have finished, returns None.

    Args:
        min_ranks: with fewer the error that the loss caused is raised.
        checkpoint: steps between two copies of the state in memory; so many are lost at the most.
        patience: seconds without a step after which the ranks regroup though nobody is known to
            be lost; None: only when a peer is lost or the watchers name one.
        settle: seconds to wait for ranks of which nothing is known.
        timeout: seconds or timedelta for all of it.
        back: seconds that a rank which was left behind waits to be let in again.

    Example:
        @unstuck.resilient(min_ranks=2, checkpoint=20)
        def train(run):
            model = DDP(Net())
            optimizer = SGD(model.parameters(), lr=0.1 * run.share)
            for step in run.steps(1000, model=model, optimizer=optimizer):
                loss(model, batch(step)).backward()
                optimizer.step()
    """
    settings = _Settings(min_ranks, checkpoint, patience, settle, timeout, back)

    def decorate(function: Callable[..., R]) -> Callable[..., R | None]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> R | None:
            run = Resilient(settings)
            with run.marked():
                if run.outside and not _goes_on(run):
                    return None
                while True:
                    try:
                        with run.watching():
                            found = function(run, *args, **kwargs)
                        run.finish()
                    except Exception as error:
                        if not run.is_loss(error):
                            raise
                        if not _goes_on(run, error):
                            return None
                    else:
                        return found

        return call

    return decorate


def _notes() -> Callable[[], Notes]:
    """Choose where the ranks of this job leave notes: all of them choose the same."""
    choices: list[bool] = [False] * c10d.get_world_size()
    c10d.all_gather_object(choices, at_hub())
    place = f"resilient/{next(_numbers)}"
    if all(choices):
        return lambda: HubNotes(place)
    store = respawned.first_store()
    return lambda: StoreNotes(store, place)


def _roll() -> rollcall.RollCall | None:
    return rollcall.current(c10d._get_default_group()) if c10d.is_initialized() else None


def _remove(mark: str | None) -> None:
    if mark:
        with contextlib.suppress(OSError):
            os.unlink(mark)


def _goes_on(run: Resilient, error: Exception | None = None) -> bool:
    """Regroup after a loss; False: the others have finished without this rank."""
    try:
        run.regroup()
    except OverError as over:
        tell(f"rank {run.seat}: {over}")
        return False
    except RebuildError as trouble:
        if error is None:
            raise
        error.add_note(f"unstuck: the ranks that are left cannot go on: {trouble}")
        raise error from trouble
    return True
