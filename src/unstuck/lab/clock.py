"""Was the machine suspended, or its clock set, during a measurement?"""

import time

from unstuck.errors import LabError

MOST = 0.5
"""Seconds by which a clock may be corrected without spoiling a measurement."""


def _offset() -> float:
    """Return how far wall-clock time is ahead of the clock that stops during a suspend."""
    return time.time() - time.monotonic()


class Clock:
    """Compares the two clocks: onset and verdict are in wall-clock time.

    Example:
        >>> Clock().check()
    """

    def __init__(self) -> None:
        self._offset = _offset()
        self._began = time.monotonic()

    def seconds(self) -> float:
        """Return the seconds since the start, without those during which the machine slept."""
        return time.monotonic() - self._began

    def check(self) -> None:
        """Fail if times measured since the start are worthless.

        Raises:
            LabError: the machine was suspended, or its clock was set.
        """
        moved = _offset() - self._offset
        if abs(moved) > MOST:
            raise LabError(
                f"the clock moved by {moved:+.1f} s: the machine was suspended, or the clock set"
            )
