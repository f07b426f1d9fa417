"""`CollectiveTimeout`: what a caller needs to know and can do when an operation took too long.

Importable without torch; with torch, the class is also one of torch's own distributed errors.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unstuck.dist.base.peers import Peer, missing_of, silent_of, summary
from unstuck.errors import UserError, WorldError

if TYPE_CHECKING:
    from unstuck.dist.base.calls import Handle

    TorchError = RuntimeError
else:
    try:
        from torch.distributed import DistError as TorchError
    except ImportError:
        TorchError = RuntimeError

__all__ = ["CollectiveTimeout", "Overdue"]


@dataclass(frozen=True)
class Overdue:
    """What is known about an operation that did not complete in time."""

    op: str
    number: int
    """Its sequence number in the group, as torch counts; 0: torch does not count it."""
    group: str
    """Torch's name for the group; the default group is "0"."""
    ranks: tuple[int, ...]
    """Global ranks of the group."""
    rank: int
    """The global rank that waited."""
    timeout: float
    """Seconds that were allowed."""
    elapsed: float
    """Seconds since the operation was issued."""
    peers: dict[int, Peer] = field(default_factory=dict[int, Peer])
    verb: str = "arrive"
    """What the other ranks have not done: arrive, send or receive."""
    started: bool = True
    copied: bool = False
    """The operation works on private copies: the caller's tensors are unchanged."""
    dead: bool = False
    """The group can no longer be used."""
    given_up_by: tuple[int, ...] = ()
    """Ranks that gave up the group, which ended the operation here as well."""

    def text(self) -> str:
        """Describe it in a few sentences: who and why, then the state of group and tensors."""
        name = "the default group" if self.group == "0" else f"group {self.group!r}"
        size = f"{len(self.ranks)} rank{'' if len(self.ranks) == 1 else 's'}"
        number = f" #{self.number}" if self.number else ""
        head = f"{self.op}{number} on {name} ({size}): timeout after {self.elapsed:.3g} s"
        return " ".join(part for part in (f"{head} on rank {self.rank}.", *self._rest()) if part)

    def _rest(self) -> tuple[str, ...]:
        if not self.started:
            return ("The deadline had passed before it was started.",)
        absent = summary(self.peers, self.verb)
        if self.dead:
            ranks = ", ".join(map(str, self.given_up_by))
            why = f"was given up by rank {ranks}" if ranks else "was ended by its own timeout"
            return absent, f"The group {why}: rebuild() it or leave."
        return absent or self._nobody_is_missing(), self._tensors()

    def _nobody_is_missing(self) -> str:
        other = [p for p in self.peers.values() if p.runs and p.runs.split()[0] != self.op]
        if other:
            runs = ", ".join(f"rank {peer.rank} runs {peer.runs}" for peer in other)
            return f"Every rank is in an operation of this group, but not in the same one: {runs}."
        if self.peers:
            return "Every rank has arrived: data is not getting through, or a rank is still busy."
        return ""

    def _tensors(self) -> str:
        if self.copied:
            return "Your tensors are as they were before the call."
        if self.op in ("barrier", "monitored_barrier") or "object" in self.op:
            return ""
        return "It may still complete: do not touch its tensors until then."


class CollectiveTimeout(WorldError, TimeoutError, TorchError):
    """An operation did not complete in the time it was given. The group is still usable.

    What you can do:

    - `error.work.wait(timeout=...)`: keep waiting. The operation was not cancelled.
    - `error.give_up()`: end it. This shuts the group's sockets, which ends it on every rank.
      `unstuck.dist.rebuild()` then makes a new group, of all ranks or of the survivors.
    - `unstuck.dist.leave()`: end everything cleanly, then exit the program.

    Example:
        try:
            dist.all_reduce(tensor, timeout=30)
        except dist.CollectiveTimeout as error:
            print(f"waited for {error.missing}: {error}")
            error.give_up()
            dist.rebuild(survivors=error.present)
    """

    def __init__(self, overdue: Overdue, work: "Handle | None" = None) -> None:
        super().__init__(overdue.text())
        self.overdue = overdue
        self.op = overdue.op
        self.number = overdue.number
        self.group = overdue.group
        self.elapsed = overdue.elapsed
        self.timeout = overdue.timeout
        self.peers = overdue.peers
        self.missing = missing_of(overdue.peers)
        """Global ranks that have not arrived, or no longer can: they are stopped or gone."""
        self.silent = silent_of(overdue.peers)
        """Global ranks about which nothing is known."""
        self._work = work

    @property
    def started(self) -> bool:
        """Whether the operation was issued; False when a deadline had already passed."""
        return self._work is not None

    @property
    def work(self) -> "Handle":
        """The operation, to wait for again."""
        if self._work is None:
            raise UserError(f"{self.op} was not started: there is nothing to wait for")
        return self._work

    @property
    def present(self) -> list[int]:
        """Global ranks that arrived, this one included: for `rebuild(survivors=...)`."""
        absent = {*self.missing, *self.silent}
        return [rank for rank in self.overdue.ranks if rank not in absent]

    def give_up(self) -> None:
        """End the operation and all others of its group; afterwards none writes to a tensor."""
        if self._work is not None:
            self._work.give_up()

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.overdue,)
