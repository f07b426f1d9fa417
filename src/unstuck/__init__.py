"""Get stuck distributed PyTorch training unstuck.

The names here are for training scripts; they cost nothing where no agent watches.
"""

from typing import TYPE_CHECKING, Any

from unstuck._version import __version__
from unstuck.observe.probe.api import section, step, watched

if TYPE_CHECKING:
    from unstuck import dist
    from unstuck.dist.errors import CollectiveTimeout
    from unstuck.dist.limits import deadline
    from unstuck.dist.resilience import Resilient, resilient
    from unstuck.explain.logs import Explanation
    from unstuck.observe.probe.callbacks import Peer, Peers, on_back, on_silent, on_verdict, peers
    from unstuck.observe.probe.overtime import SectionTimeout
    from unstuck.observe.probe.stall import StallError, on_stall
    from unstuck.observe.probe.watch import watch

    def explain(text: str | bytes, *, lang: str = "en") -> Explanation:
        """Say what went wrong in a log."""
        ...


__all__ = [
    "__version__",
    "CollectiveTimeout",
    "Peer",
    "Peers",
    "Resilient",
    "SectionTimeout",
    "StallError",
    "deadline",
    "dist",
    "explain",
    "on_back",
    "on_silent",
    "on_stall",
    "on_verdict",
    "peers",
    "resilient",
    "section",
    "step",
    "watch",
    "watched",
]
_ELSEWHERE = {
    "unstuck.dist.errors": ("CollectiveTimeout",),
    "unstuck.dist.limits": ("deadline",),
    "unstuck.dist.resilience": ("Resilient", "resilient"),
    "unstuck.observe.probe.callbacks": (
        "Peer",
        "Peers",
        "on_back",
        "on_silent",
        "on_verdict",
        "peers",
    ),
    "unstuck.observe.probe.overtime": ("SectionTimeout",),
    "unstuck.observe.probe.stall": ("StallError", "on_stall"),
    "unstuck.observe.probe.watch": ("watch",),
}


def __getattr__(name: str) -> Any:
    """Import what a training script does not need when it is asked for."""
    from importlib import import_module

    if name in ("dist", "explain"):
        return import_module(f"unstuck.{name}")
    for module, names in _ELSEWHERE.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
