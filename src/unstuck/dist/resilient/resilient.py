"""`@unstuck.resilient`: the survivors of a loss continue in the same processes.

When a rank dies, stops or hangs, the others leave the collective that waits for it, agree on who is
left, make the process groups new, and call the training function again, which continues from the
newest state any of them has. A rank that comes back is let in at the end of a step.
"""

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from torch.distributed import distributed_c10d as c10d

from unstuck.dist.base.limits import Limit, seconds_of
from unstuck.dist.base.peers import listed
from unstuck.dist.rebuilding.notes import Notes, StoreNotes
from unstuck.dist.resilient import respawned
from unstuck.dist.resilient.hub_notes import HubNotes, has_hub
from unstuck.dist.resilient.losses import Losses, is_loss
from unstuck.dist.resilient.membership import Membership, OverError
from unstuck.dist.resilient.regrouping import Regrouping, Settings
from unstuck.dist.resilient.snapshots import Snapshots
from unstuck.errors import RebuildError
from unstuck.script.deadlines import tell

R = TypeVar("R")
_numbers = itertools.count()
"""All ranks call their resilient functions in the same order."""


class _RankIsBack(RuntimeError):
    """Raised at the end of a step, to let a rank back in."""


class Resilient:
    """What a resilient training function gets as its first argument."""

    def __init__(self, settings: Settings) -> None:
        notes = _notes()
        self._checkpoint = settings.checkpoint
        self._membership = Membership(notes, *respawned.seat())
        self._losses = Losses(self._membership, notes, settings.patience)
        self._regrouping = Regrouping(
            settings, self._membership, self._losses, outside=respawned.is_respawned()
        )
        self._snapshots = Snapshots()
        self.losses = 0
        """How often the world has changed."""

    @property
    def seat(self) -> int:
        """The rank this process started with; `dist.get_rank()` may change."""
        return self._membership.seat

    @property
    def members(self) -> tuple[int, ...]:
        """The seats of the ranks that are training now."""
        return self._membership.members

    @property
    def share(self) -> float:
        """The fraction of the first world that is training now, and so of the global batch."""
        return len(self.members) / self._membership.size

    @property
    def outside(self) -> bool:
        """Whether this rank was restarted or left behind, and waits to be let in."""
        return self._regrouping.outside

    def steps(self, stop: int, **stateful: Any) -> Iterator[int]:
        """Count the steps up to `stop`, from where the job was before a loss.

        Before the first one, the state of everything named (`model=`, `optimizer=`, whatever has
        `state_dict()` and `load_state_dict()`) is restored; every `checkpoint` steps it is copied.

        Example:
            for step in run.steps(1000, model=model, optimizer=optimizer):
                train_one(step)
        """
        step = self._snapshots.agree(stateful)
        self._losses.progressed()
        while step < stop:
            yield step
            step += 1
            self._losses.progressed()
            returning = self._losses.returning
            if returning or step % self._checkpoint == 0:
                self._snapshots.take(step, stateful)
            if returning:
                raise _RankIsBack(f"rank {listed(returning)} is back")

    def _run(self, function: Callable[[], R]) -> R | None:
        """Call a training function, again after every loss, until it ends by itself."""
        with respawned.may_be_restarted(self.seat):
            if self.outside and not self._regroup(None):
                return None
            while True:
                try:
                    with self._losses.watching():
                        result = function()
                except Exception as error:
                    if not isinstance(error, _RankIsBack) and not is_loss(error):
                        raise
                    if not self._regroup(error):
                        return None
                else:
                    if self._membership.is_doorkeeper():
                        with contextlib.suppress(Exception):
                            self._membership.close()
                    return result

    def _regroup(self, error: Exception | None) -> bool:
        """Regroup after a loss; False: the others have finished without this rank."""
        try:
            self._regrouping.regroup()
        except OverError as over:
            tell(f"rank {self.seat}: {over}")
            return False
        except RebuildError as trouble:
            if error is None:
                raise
            error.add_note(f"unstuck: the remaining ranks cannot continue: {trouble}")
            raise error from trouble
        self.losses += 1
        return True


def resilient(
    *,
    min_ranks: int = 1,
    checkpoint: int = 10,
    patience: Limit | None = None,
    settle: Limit = 1,
    timeout: Limit = 60,
    back: Limit = 3600,
) -> Callable[[Callable[..., R]], Callable[..., R | None]]:
    """Let a training function continue with the remaining ranks when some are lost.

    The function gets a `Resilient` as its first argument and is called again after every loss: it
    creates its model, DDP and loader for the current rank and world size. `run.steps()`
    restores the state and continues counting. The default group must already exist, and have been
    created with `unstuck.dist` imported.

    It returns None on a rank that the others did not let back in because they have finished.

    Args:
        min_ranks: with fewer, the error that the loss caused is raised.
        checkpoint: steps between two copies of the state in memory; at most this many are lost.
        patience: seconds without a step after which the ranks regroup although none is known to
            be lost; None: only when a peer is lost or a verdict names one.
        settle: seconds to wait for ranks about which nothing is known.
        timeout: seconds or timedelta for all of it.
        back: seconds that a rank which was left behind waits to be let back in.

    Example:
        @unstuck.resilient(min_ranks=2, checkpoint=20)
        def train(run):
            model = DDP(Net())
            optimizer = SGD(model.parameters(), lr=0.1 * run.share)
            for step in run.steps(1000, model=model, optimizer=optimizer):
                loss(model, batch(step)).backward()
                optimizer.step()
    """
    settings = Settings(
        min_ranks=_at_least_one(min_ranks, "min_ranks"),
        checkpoint=_at_least_one(checkpoint, "checkpoint"),
        patience=None if patience is None else seconds_of(patience, "patience"),
        settle=seconds_of(settle, "settle"),
        timeout=seconds_of(timeout),
        back=seconds_of(back, "back"),
    )

    def decorate(function: Callable[..., R]) -> Callable[..., R | None]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> R | None:
            run = Resilient(settings)
            return run._run(lambda: function(run, *args, **kwargs))

        return call

    return decorate


def _at_least_one(number: int, argument: str) -> int:
    if number < 1:
        raise ValueError(f"{argument} must be at least 1, not {number}")
    return number


def _notes() -> Callable[[], Notes]:
    """Choose where the ranks of this job leave notes: all of them choose the same place."""
    hubs: list[bool] = [False] * c10d.get_world_size()
    c10d.all_gather_object(hubs, has_hub())
    place = f"resilient/{next(_numbers)}"
    if all(hubs):
        return lambda: HubNotes(place)
    store = respawned.first_store()
    return lambda: StoreNotes(store, place)
