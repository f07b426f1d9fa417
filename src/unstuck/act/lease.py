"""The right to act: at most one hub of a job has it at any moment.

Two things are needed. The lock on `hub.lock` in the run directory, which the kernel takes back
when its holder dies: of two hubs that share a run directory one acts. And more than half of the
attempt's ranks heard, or exactly half with rank 0 among them: an agent talks to one hub at a
time, so two hubs that share nothing cannot both have that.

What it does not cover: ranks whose own agent is dead. They are heard by nobody, and are not ended
by the lease of their node either.
"""

import contextlib
import fcntl
import os
from pathlib import Path

from unstuck.model.liveness import is_surely_heard
from unstuck.model.snapshot import Snapshot


class Lease:
    """Held by one hub process until it ends."""

    def __init__(self, run: Path) -> None:
        self._path = run / "hub.lock"
        self._fd: int | None = None

    def why_not(self, snapshot: Snapshot) -> str:
        """Say why this hub must not act now; empty when it may."""
        if not self._locked():
            return "another hub of this run directory acts"
        return quorum(snapshot)

    def release(self) -> None:
        """Let another hub act."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _locked(self) -> bool:
        if self._fd is not None:
            return True
        with contextlib.suppress(OSError):
            fd = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._fd = fd
            finally:
                if self._fd is None:
                    os.close(fd)
        return self._fd is not None


def quorum(snapshot: Snapshot) -> str:
    """Say why too few ranks are heard; empty when there are enough."""
    if len(snapshot.nodes) == 1 and snapshot.nodes[0].nodes_wanted == 1:
        return ""  # one agent, and it talks to one hub
    silent = {node.host for node in snapshot.nodes if not is_surely_heard(node)}
    heard = {state.rank for state in snapshot.ranks if state.host not in silent}
    half, world = len(heard) * 2, snapshot.world_size
    if half > world or (half == world and 0 in heard):
        return ""
    return f"only {len(heard)} of {world} ranks are heard from here"
