"""When and where a program goes wrong: shared by the programs, silent unless asked.

`FAULT_RANK` (2) and `FAULT_STEP` (30) choose the place; `ONSET_FILE` receives the time.
"""

import ctypes
import os
import signal
import time
from pathlib import Path

RANK = int(os.environ.get("RANK", "0"))
FAULT_RANK = int(os.environ.get("FAULT_RANK", "2"))
FAULT_STEP = int(os.environ.get("FAULT_STEP", "30"))
PR_SET_PDEATHSIG = 1
SLEEPER = ("setpriv", "--pdeathsig", "KILL", "sleep", "3600")
"""A command that never ends, yet ends with the trainer that started it."""


def due(step: int, rank: int = FAULT_RANK) -> bool:
    """Say whether this rank goes wrong at this step; `rank` where only that one can."""
    return step == FAULT_STEP and rank == RANK


def mark() -> None:
    """Write the time into `ONSET_FILE`, whole or not at all; call it right before the fault."""
    target = os.environ.get("ONSET_FILE")
    if target:
        draft = Path(f"{target}.{os.getpid()}")
        draft.write_text(repr(time.time()))
        draft.replace(target)


def die_with_parent() -> None:
    """Have the kernel kill this child process when its trainer ends: no orphan stays behind."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
