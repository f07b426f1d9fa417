"""A small JSON file that a rank writes anew now and then."""

import contextlib
import json
import os
from typing import Any


class ChangingFile:
    """Reads a file again only when it has changed; one system call when it has not."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._changed = 0.0
        self._content: dict[str, Any] = {}

    def read(self) -> dict[str, Any]:
        """Return its content, or the last that could be read; empty before there is any."""
        with contextlib.suppress(OSError, ValueError):
            changed = os.stat(self._path).st_mtime
            if changed != self._changed:
                with open(self._path) as file:
                    self._content = json.load(file)
                self._changed = changed
        return self._content
