"""One coherent set of timeouts: what a job has, what does nothing, what contradicts, what fits.

Pure functions on `JobSettings`: from a snapshot (`live`), or as somebody read them from a
command line, a script and an environment.
"""

from unstuck.diagnose.knobs.judge import judge

__all__ = ["judge"]
