"""When and where a program goes wrong: shared by the programs, silent unless asked.

`FAULT_RANK` (2) and `FAULT_STEP` (30) choose the place; `ONSET_FILE` receives the time.
"""

import os
import time
from pathlib import Path

RANK = int(os.environ.get("RANK", "0"))
FAULT_RANK = int(os.environ.get("FAULT_RANK", "2"))
FAULT_STEP = int(os.environ.get("FAULT_STEP", "30"))


def due(step: int) -> bool:
    """Say whether this rank goes wrong at this step."""
    return step == FAULT_STEP and RANK == FAULT_RANK


def mark() -> None:
    """Write the time into `ONSET_FILE`, whole or not at all; call it right before the fault."""
    target = os.environ.get("ONSET_FILE")
    if target:
        draft = Path(f"{target}.{os.getpid()}")
        draft.write_text(repr(time.time()))
        draft.replace(target)
