"""What `unstuck doctor` found out about one thing, and what to do about it."""

from enum import StrEnum

from msgspec import Struct


class Rating(StrEnum):
    """How it stands, the worst last."""

    OK = "ok"
    UNKNOWN = "unknown"
    """It could not be looked at."""
    WARNING = "warning"
    """Jobs run, some of them badly."""
    BAD = "bad"
    """Jobs fail or hang because of it."""


class Check(Struct, frozen=True, omit_defaults=True):
    """One line of the table."""

    name: str
    rating: Rating
    text: str
    fix: str = ""
    """What to do; empty where there is nothing to do."""
    host: str = ""
