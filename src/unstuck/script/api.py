"""`unstuck.step()` and the other names for training scripts that talk to the page.

They write a few bytes into the shared page, and do nothing at all in a process that nobody
watches. They never raise because of unstuck.
"""

from unstuck.observe.probe.this_process import current
from unstuck.script.section import section
from unstuck.script.wrap import watched

__all__ = ["section", "step", "watched"]


def step(number: int | None = None) -> None:
    """Say that a training step is done.

    Needed only where no `torch.optim` optimizer runs: its steps are counted by themselves,
    until the first call of this function.

    Example:
        >>> import unstuck
        >>> unstuck.step()
    """
    if not current.explicit_steps:
        current.explicit_steps = True
        current.steps = 0
    _count(number)


def optimizer_stepped(*_: object) -> None:
    """Count a step of any optimizer, unless the script counts its own."""
    if not current.explicit_steps:
        _count(None)


def _count(number: int | None) -> None:
    try:
        current.steps = current.steps + 1 if number is None else int(number)
        if current.page is not None:
            current.page.step(current.steps)
    except Exception:
        return
