"""What `unstuck run` hands to the hub: the policy, and what the launch command allows."""

from pathlib import Path

import msgspec
from msgspec import Struct

from unstuck.act.policy import Policy
from unstuck.console import say


class Instructions(Struct, frozen=True):
    """The policy, and what the launch command allows."""

    run: str
    """Tells the ledger lines of this run from those of an earlier one in the same directory."""
    policy: Policy
    max_restarts: int | None = None
    """How often the launcher restarts its ranks; None: it never does."""
    fewest: int = 1
    """With fewer nodes it does not continue."""


def read(path: Path | None) -> Instructions | None:
    """Return what was left; None where nothing was, or where it cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Instructions) if path else None
    except (OSError, msgspec.MsgspecError) as error:
        say(f"the policy cannot be read, so nothing will be done: {error}")
        return None
