"""The ledger: every act is written down, and on disk, before it is done."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from unstuck.files import appended


class Ledger:
    """Appends one JSON line an act to a file that only grows."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, act: str, **facts: Any) -> None:
        """Note that `act` is about to be done."""
        line = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "act": act, **facts}
        with appended(self._path) as file:
            file.write(msgspec.json.encode(line) + b"\n")
            file.flush()
            os.fsync(file.fileno())
