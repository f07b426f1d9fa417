"""A hold-up: who keeps the others waiting, and is not known to be stuck.

A notice is a fact and no verdict: nothing is stored, nobody is woken, nothing acts on it.
"""

from msgspec import Struct

from unstuck.model.life import Life
from unstuck.model.verdict import Culprit, StuckOperation

SCHEMA = "unstuck.notice/1"


class Notice(Struct, frozen=True, omit_defaults=True):
    """Ranks that hold others up, each with what it does instead."""

    ranks: tuple[Culprit, ...]
    waiting: tuple[int, ...] = ()
    """The ranks that wait for them."""
    stuck: StuckOperation | None = None
    """The operation that they wait in."""
    seconds: float = 0.0
    """For how long they have waited."""
    since: str = ""
    """ISO 8601, UTC."""
    life: Life | None = None
    """The signs of life of the first of these ranks; None while they are not known."""
    judged_in: float | None = None
    """Seconds until a verdict if no sign of life is seen; None where one was seen just now."""
    times_out_in: float | None = None
    """Set once half of the operation's timeout has passed: seconds until torch ends the job."""
    attempt: int = 0
    step: int = 0


class NoticeFile(Struct, frozen=True):
    """The machine-readable form of a notice; `over` says that the hold-up has ended."""

    notice: Notice
    over: bool = False
    schema: str = SCHEMA
