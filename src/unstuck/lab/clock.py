"""Was the machine suspended, or its clock set, while something was measured on it?"""

import time

from unstuck.errors import LabError

MOST = 0.5
"""Seconds that a clock may be corrected by without spoiling a measurement of seconds."""


def _offset() -> float:
    """Give by how much the clock on the wall is ahead of the one that stands still in a sleep."""
    return time.time() - time.monotonic()


class Clock:
    """Compares the two clocks: onset and verdict are timed by that on the wall.

    Example:
        >>> Clock().check()
    """

    def __init__(self) -> None:
        self._offset = _offset()
        self._began = time.monotonic()

    def seconds(self) -> float:
        """Give for how long it has run, without the time in which nothing ran."""
        return time.monotonic() - self._began

    def check(self) -> None:
        """Fail if times taken since the start are worth nothing.

        Raises:
            LabError: the machine was suspended, or its clock was set.
        """
        moved = _offset() - self._offset
        if abs(moved) > MOST:
            raise LabError(
                f"the clock moved by {moved:+.1f} s: the machine was suspended, or the clock set"
            )
