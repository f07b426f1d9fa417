"""One coherent set of timeouts: what a job has, what has no effect, what conflicts, what fits.

Pure functions on `JobSettings`: from a snapshot (`live`), or as somebody read them from a
command line, a script and an environment.
"""

from unstuck.diagnose.timeouts.judge import judge

__all__ = ["judge"]
