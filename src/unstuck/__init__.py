"""Get stuck distributed PyTorch training unstuck.

The names here are for training scripts; they cost nothing where no agent watches.
"""

from typing import TYPE_CHECKING, Any

from unstuck._version import __version__
from unstuck.observe.probe.api import section, step

if TYPE_CHECKING:
    from unstuck.explain.logs import Explanation

    def explain(text: str | bytes, *, lang: str = "en") -> Explanation:
        """Say what went wrong in a log."""
        ...


__all__ = ["__version__", "explain", "section", "step"]


def __getattr__(name: str) -> Any:
    """Import what a training script does not need when it is asked for."""
    if name == "explain":
        from importlib import import_module

        return import_module("unstuck.explain")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
