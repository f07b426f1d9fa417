"""What every fault is: a frozen value that can be injected, proven and taken back.

The names of its fields are its parameters in a scenario; `tag` is its name there:

    fault = {name = "stop", rank = 2}
"""

from collections.abc import Callable
from dataclasses import dataclass

from msgspec import Struct

from unstuck.lab.cgroups import Cgroup
from unstuck.lab.world import World


@dataclass(frozen=True)
class Fired:
    """The proof that a fault took effect; without it a run does not count."""

    at: float
    """When it began, in seconds since the epoch."""
    count: int
    """How often it was seen to act: signals taken, packets dropped, kills by the kernel."""
    how: str
    """What was seen: `rank 2 is in state T`."""


def _nothing() -> None:
    return


@dataclass(frozen=True)
class Injection:
    """A fault under way."""

    look: Callable[[], Fired | None]
    """Return the proof as soon as there is one; called again and again until then."""
    undo: Callable[[], None] = _nothing
    """Take the fault back, as when a network heals; must not raise when called twice."""


class Fault(Struct, frozen=True, forbid_unknown_fields=True, tag_field="name"):
    """The base of all faults. One fault is one file of this folder."""

    def why_not(self) -> str:
        """Say why it cannot be injected on this machine; empty when it can."""
        return ""

    def enclose(self) -> Cgroup | None:
        """Make the control group that the job must be started in, if the fault needs one."""
        return None

    def inject(self, world: World) -> Injection:
        """Make it happen now.

        Raises:
            LabError: the machine refused.
        """
        raise NotImplementedError

    def where(self) -> str:
        """Say in a few words whom it strikes: `rank 2`."""
        rank = getattr(self, "rank", None)
        if rank is not None:
            return "all ranks" if rank == "all" else f"rank {rank}"
        found = (getattr(self, name, None) for name in ("host", "other"))
        return " and ".join(f"node{each}" for each in found if each is not None)
