"""`unstuck.step()` and `unstuck.section()`: what torch does not know about the training.

Both write a few bytes into the shared page, and do nothing at all in a process that
`unstuck run` does not watch. They never raise because of unstuck.
"""

import time
from types import TracebackType
from typing import Self

from unstuck.observe.probe.page import PageWriter

__all__ = ["section", "step"]


class _Current:
    """The page of this process, if it is a watched rank."""

    page: PageWriter | None = None
    steps: int = 0
    explicit_steps: bool = False
    open: "list[section]"


_current = _Current()
_current.open = []


def attach(page: PageWriter | None) -> None:
    """Connect `step` and `section` with the rank's page; None disconnects them."""
    _current.page = page


def step(number: int | None = None) -> None:
    """Say that a training step is done.

    Needed only where no `torch.optim` optimizer runs: its steps are counted by themselves,
    until the first call of this function.

    Example:
        >>> import unstuck
        >>> unstuck.step()
    """
    if not _current.explicit_steps:
        _current.explicit_steps = True
        _current.steps = 0
    _count(number)


def optimizer_stepped(*_: object) -> None:
    """Count a step of any optimizer, unless the script counts its own."""
    if not _current.explicit_steps:
        _count(None)


def _count(number: int | None) -> None:
    try:
        _current.steps = _current.steps + 1 if number is None else int(number)
        if _current.page is not None:
            _current.page.step(_current.steps)
    except Exception:
        return


class section:  # noqa: N801 - reads as a word of the script: `with unstuck.section("load"):`
    """Name what the training does next; with a `timeout`, say how long it may take at most.

    The verdict then says "in section 'load batch'" where it could only show a line of code.

    Example:
        >>> import unstuck
        >>> with unstuck.section("load batch", timeout=30):
        ...     batch = [1, 2, 3]
    """

    __slots__ = ("deadline", "name", "timeout")

    def __init__(self, name: str, timeout: float | None = None) -> None:
        if timeout is not None and timeout <= 0:
            raise ValueError(f"timeout must be above 0 seconds, not {timeout}")
        self.name = str(name)
        self.timeout = timeout
        self.deadline = 0.0

    def __enter__(self) -> Self:
        if self.timeout is not None:
            self.deadline = time.monotonic() + self.timeout
        _current.open.append(self)
        if _current.page is not None:
            _current.page.section(self.name, self.deadline)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self in _current.open:
            _current.open.remove(self)
        if _current.page is not None:
            outer = _current.open[-1] if _current.open else None
            _current.page.section(outer.name if outer else "", outer.deadline if outer else 0.0)
