"""Get stuck distributed PyTorch training unstuck.

The names here are for training scripts; they cost nothing where no agent watches.
"""

from unstuck._version import __version__
from unstuck.observe.probe.api import section, step

__all__ = ["__version__", "section", "step"]
