"""What a rank was in when another one died, or when it failed itself: kept for its own end.

In a job that falls apart the recorders are gone within a tenth of a second.
"""

import json
from pathlib import Path
from typing import Any

from unstuck.model.rank import GroupProgress


class LastOperations:
    """Per group the furthest state of the recorder that was seen in time."""

    def __init__(self, path: str) -> None:
        """Remember nothing yet; `path` is the file into which a failing rank writes."""
        self._path = Path(path)
        self._found: dict[str, GroupProgress] = {}
        self._own_read = False

    def own(self, phase: str) -> dict[str, Any] | None:
        """Return, once, what a rank that fails has written down by itself.

        Raises:
            OSError: it could not write.
            ValueError: what it wrote is not whole.
        """
        if self._own_read or phase != "exception":
            return None
        self._own_read = True
        return {"entries": json.loads(self._path.read_text())}

    def keep(self, found: dict[str, GroupProgress]) -> None:
        """Keep what is new; the first look at an operation shows it before it was given up."""
        for name, group in found.items():
            known = self._found.get(name)
            if known is None or group.enqueued > known.enqueued:
                self._found[name] = group

    def of(self, name: str, enqueued: int, *, stuck: bool) -> GroupProgress | None:
        """Return what is known of a group, unless its rank has moved on since.

        `enqueued` is what its page says, `stuck` that it ended or still waits in an operation.
        """
        known = self._found.get(name)
        if known is None or known.enqueued < enqueued:
            return None
        return known if stuck or known.enqueued > enqueued else None
