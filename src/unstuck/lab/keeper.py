"""A process that outlives its owner by a moment and removes what a killed owner left behind.

Whatever an owner starts carries its tag. The keeper waits for the owner's end, however it
comes, and then sweeps: processes, network namespaces, control groups, temporary folders.
"""

import atexit
import contextlib
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

from unstuck.lab.owner import MARKER
from unstuck.lab.sweep import sweep

_ROUNDS = 100
"""Sweeps at most: what is killed may have owned something itself, which the next one finds."""
_pipes: dict[int, int] = {}
"""Where the keeper of this process listens, by the pid: a forked child has none of its own."""


def start() -> None:
    """See to it that this process has a keeper."""
    if os.getpid() in _pipes:
        return
    theirs, _pipes[os.getpid()] = os.pipe()
    # In a session of its own: what ends the owner's process group must not end its keeper.
    process = subprocess.Popen(
        [sys.executable, "-m", "unstuck.lab.keeper", str(os.getpid())],
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name != MARKER},
        start_new_session=True,
    )
    os.close(theirs)
    process.returncode = 0  # nobody waits for it: it ends after this process


def remove_if_killed(folder: Path) -> None:
    """Have a folder removed if this process is killed; one that exits by itself keeps it."""
    start()
    _tell(os.fsencode(folder))
    atexit.register(_tell, b"")


def _tell(line: bytes) -> None:
    if pipe := _pipes.get(os.getpid()):
        with contextlib.suppress(OSError):
            os.write(pipe, line + b"\n")


def _keep(owner: int) -> None:
    """Wait for the end of the owner and remove what it has left."""
    folders = _folders_at_the_end(owner)
    for _ in range(_ROUNDS):
        if not sweep():
            break
        time.sleep(0.1)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _folders_at_the_end(owner: int) -> list[str]:
    """Return the folders that the owner wanted removed, once it has ended."""
    try:
        alive = os.pidfd_open(owner)
    except ProcessLookupError:
        alive = None
    text = b""
    while alive is not None and alive not in select.select([alive, 0], [], [])[0]:
        if not (read := os.read(0, 65536)):
            select.select([alive], [], [])
            break
        text += read
    while select.select([0], [], [], 0)[0] and (read := os.read(0, 65536)):
        text += read
    *lines, _ = text.split(b"\n")
    return [] if b"" in lines else [os.fsdecode(line) for line in lines]


if __name__ == "__main__":
    _keep(int(sys.argv[1]))
