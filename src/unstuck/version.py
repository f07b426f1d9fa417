"""Which unstuck this is, as the installed package says."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed


def version() -> str:
    """Return the installed version, or `0+source` when run from a bare source tree."""
    try:
        return installed("unstuck")
    except PackageNotFoundError:
        return "0+source"
