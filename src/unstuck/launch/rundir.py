"""The run directory: what a run leaves behind, and the live directory it works in."""

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path

from unstuck.console import say
from unstuck.errors import UserError

_MEMORY = Path("/dev/shm")  # noqa: S108 - made unguessable by mkdtemp below

RUN_LINK = "run"
"""In the live directory: leads back to the run directory, from whatever folder one looks."""


def create(wanted: Path | None, name: str) -> Path:
    """Make the run directory: exactly `wanted`, else `runs/<time>-<name>` below this folder.

    Raises:
        UserError: it cannot be made or written to.
    """
    path = wanted or Path("runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"
    try:
        while wanted is None and path.exists():
            path = path.with_name(path.name + "x")
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
        if os.geteuid() == 0 and path.stat().st_uid != 0:
            say(f"{path} belongs to another user, who may change what is written there")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(
            f"cannot write the run directory {path}: {reason}",
            hint="give a writable one with --run-dir DIR",
        ) from error
    return path.resolve()


class LiveDirectory:
    """Where the ranks of this node keep their pages and sockets while the job runs.

    In memory, not in the run directory: that may lie on a network file system, where a
    mapped page could block the training, and its path may be too long for a socket. The
    run directory has a link to it.
    """

    def __init__(self, run: Path, host: str) -> None:
        parent = _MEMORY if os.access(_MEMORY, os.W_OK) else None
        self.path = Path(tempfile.mkdtemp(prefix="unstuck-", dir=parent))
        self._link = run / f"live-{host}-{os.getpid()}"
        # A help for people only: a file system without links must not stop the job. In a
        # container all runs have the same pid, and one that was killed leaves its link.
        with contextlib.suppress(OSError):
            self._link.unlink(missing_ok=True)
            self._link.symlink_to(self.path)
        with contextlib.suppress(OSError):
            (self.path / RUN_LINK).symlink_to(run)

    def remove(self) -> None:
        """Delete it and the link to it."""
        with contextlib.suppress(OSError):
            self._link.unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)
