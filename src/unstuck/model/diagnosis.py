"""What `diagnose` returns."""

from msgspec import Struct

from unstuck.model.notice import Notice
from unstuck.model.requests import EvidenceRequest
from unstuck.model.verdict import Verdict


class BrokenRule(Struct, frozen=True):
    """A part of diagnosis that raised: a bug in unstuck, and no reason to judge nothing."""

    rule: str
    """Its name in the ladder."""
    error: str
    """The exception in one line."""
    trace: str = ""
    """Where it arose, for a bug report."""


class Diagnosis(Struct, frozen=True, kw_only=True):
    """A verdict if there is one, who holds others up otherwise, and what else it wants to see."""

    verdict: Verdict | None = None
    requests: tuple[EvidenceRequest, ...] = ()
    notices: tuple[Notice, ...] = ()
    broken: tuple[BrokenRule, ...] = ()
    """What could not be judged; the rest was."""
