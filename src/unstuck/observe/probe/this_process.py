"""What the parts of the probe share in one process."""

import os
import threading
from typing import Any

from unstuck.observe.probe.page import FIRST_NAME, LAST_NAME, PageWriter


class Current:
    """The page of this process, if it is a watched rank, and the sections that are open."""

    def __init__(self) -> None:
        self.page: PageWriter | None = None
        self.main = threading.main_thread().ident or 0
        self.open: list[Any] = []
        """Sections of the main thread that are open, innermost last."""
        self.names: dict[str, int] = {}
        self._naming = threading.Lock()
        self.steps = 0
        self.explicit_steps = False

    def attach(self, page: PageWriter | None) -> None:
        """Write to this page from now on; None: to none."""
        with self._naming:
            if page is not None:
                for name, number in self.names.items():
                    page.name(number, name)
            self.page = page

    def number_of(self, name: str) -> int:
        """Give a name its number on the page; 0 where it has to be written out each time."""
        number = self.names.get(name)
        if number is not None:
            return number
        with self._naming:
            number = FIRST_NAME + len(self.names)
            if name in self.names or number > LAST_NAME or not name:
                return self.names.get(name, 0)
            if self.page is not None:
                self.page.name(number, name)
            self.names[name] = number
        return number


current = Current()


def rank_text() -> str:
    """Return `rank 3: ` in a rank, and nothing elsewhere."""
    rank = os.environ.get("RANK", "")
    return f"rank {rank}: " if rank.isdigit() else ""


def _in_child() -> None:
    """A fork has no page: the one it inherits is its parent's."""
    current.page = None
    current.main = threading.get_ident()
    current._naming = threading.Lock()


os.register_at_fork(after_in_child=_in_child)
