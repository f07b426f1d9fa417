"""Get stuck distributed PyTorch training unstuck.

The names here are for training scripts; they cost nothing where no agent watches.
"""

from typing import TYPE_CHECKING, Any

from unstuck._version import __version__
from unstuck.script.api import section, step, watched

if TYPE_CHECKING:
    from unstuck import dist
    from unstuck.dist.base.errors import CollectiveTimeout
    from unstuck.dist.base.limits import deadline
    from unstuck.dist.resilient.resilient import Resilient, resilient
    from unstuck.explain.explanation import Explanation
    from unstuck.observe.probe.section_timeout import SectionTimeout
    from unstuck.script.callbacks import Peer, Peers, on_back, on_silent, on_verdict, peers
    from unstuck.script.on_stall import StallError, on_stall
    from unstuck.script.watch import watch

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
    "unstuck.dist.base.errors": ("CollectiveTimeout",),
    "unstuck.dist.base.limits": ("deadline",),
    "unstuck.dist.resilient.resilient": ("Resilient", "resilient"),
    "unstuck.script.callbacks": (
        "Peer",
        "Peers",
        "on_back",
        "on_silent",
        "on_verdict",
        "peers",
    ),
    "unstuck.observe.probe.section_timeout": ("SectionTimeout",),
    "unstuck.script.on_stall": ("StallError", "on_stall"),
    "unstuck.script.watch": ("watch",),
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
