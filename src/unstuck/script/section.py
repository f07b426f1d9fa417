"""`unstuck.section`: named parts of the training, with a time limit."""

from collections.abc import Callable
from datetime import timedelta
from threading import get_ident
from time import monotonic
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from unstuck.observe.probe.page import ACTIONS, NO_NAME, PageWriter
from unstuck.observe.probe.section_timeout import SectionTimeout
from unstuck.observe.probe.this_process import current
from unstuck.script import interrupt
from unstuck.script.deadlines import watcher

F = TypeVar("F", bound=Callable[..., Any])
OnTimeout = Literal["report", "dump", "raise", "abort"] | Callable[[SectionTimeout], object]

_NUMBERS = {action: number << 16 for number, action in enumerate(ACTIONS)}
_NEW, _OPEN, _CLOSED = range(3)
_LONGEST = 1e9
_LEARN_FROM, _TIMES, _FLOOR = 10, 3, 3.0
"""As patience is learned for whole ranks: `diagnose/job/patience.py`."""


class Section:
    """A named part of the training, made by `section`: one object per name, open or not."""

    __slots__ = ("name", "number")
    deadline = 0.0

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = current.number_of(name)

    def __enter__(self) -> Self:
        if get_ident() == current.main:
            current.open.append(self)
            if current.page is not None:
                if self.number:
                    current.page.mark(self.number)
                else:
                    current.page.section(self.name, 0.0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if get_ident() == current.main:
            inside = current.open
            # The usual case, without the cost of one more call.
            if len(inside) == 1 and inside[0] is self:
                inside.clear()
                if current.page is not None:
                    current.page.mark(NO_NAME)
            else:
                _leave(self)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    def again(self) -> "Section":
        """Return a section like this one for one more use."""
        return self

    def __call__(self, function: F) -> F:
        """Make every call of a function such a section; of a generator, every step of it."""
        from unstuck.script.wrap import decorate

        return decorate(self, function)


class Timed(Section):
    """A section with a limit, given or learned."""

    # No slots: what most sections never change is of the class.
    deadline = 0.0
    place = -1
    thread = 0
    began = 0.0
    state = _NEW
    cancelled = False
    error: SectionTimeout | None = None
    frame: Any = None
    task: Any = None
    loop: Any = None

    def __init__(
        self, name: str, timeout: float | timedelta | None, on_timeout: OnTimeout | None
    ) -> None:
        # Not the inherited one: this runs once per use, so it looks the number up without a lock.
        self.name = name if name.__class__ is str else str(name)
        self.timeout: float | None = None if timeout is None else _seconds(timeout)
        self.on_timeout: Any = on_timeout
        self.action = "report" if on_timeout is None else _action(on_timeout)
        self.number = current.names.get(self.name) or current.number_of(self.name)

    @property
    def is_open(self) -> bool:
        """True from entering to leaving."""
        return self.state == _OPEN

    def again(self) -> "Timed":
        """Return a section like this one for one more use."""
        return Timed(self.name, self.timeout, self.on_timeout)

    def __enter__(self) -> Self:
        if self.state == _OPEN:
            raise RuntimeError(f"section {self.name!r} is open already: make one for each use")
        self.state = _OPEN
        self.error = None
        self.thread = thread = get_ident()
        self.began = began = monotonic()
        timeout = self.timeout or _learned_limit(self.name)
        self.place = -1
        shown = self.number if thread == current.main else 0
        if timeout:
            self.deadline = deadline = began + timeout
            if current.page is not None:
                what = _NUMBERS[self.action] | self.number
                self.place = current.page.arm(deadline, began, what, shown)
            if self.action == "raise":
                interrupt.prepare(self)
            watcher.open.add(self)
            if deadline < watcher.due:
                watcher.hurry()
        if thread == current.main:
            inside = current.open
            if inside:
                _drop_what_was_raised()
            inside.append(self)
            if not (timeout and shown):
                _show(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.state != _OPEN:
            happened = "was never entered" if self.state == _NEW else "is closed already"
            raise RuntimeError(f"section {self.name!r} {happened}")
        self.state = _CLOSED
        watcher.open.discard(self)
        inside, page = current.open, current.page
        last = len(inside) == 1 and inside[0] is self
        if self.place >= 0 and page is not None:
            page.disarm(self.place, last=last)
            if last:
                inside.clear()  # as _leave would, without the cost of one more call
        if inside and self.thread == current.main:
            _leave(self, strict=False)
        if self.timeout is None and kind is None:
            _note_visit(self.name, monotonic() - self.began)
        if self.action == "raise":
            self._settle(kind, error)

    def _settle(self, kind: type[BaseException] | None, error: BaseException | None) -> None:
        """After its deadline, make sure that exactly the right exception leaves the section."""
        self.frame = None
        task, self.task = self.task, None
        if self.error is None:
            return
        if kind is SectionTimeout and isinstance(error, SectionTimeout) and not error.name:
            error.fill(self.error)
        elif task is not None and self.cancelled and kind is not None:
            # As asyncio.timeout does: a cancellation by somebody else continues.
            if kind.__name__ == "CancelledError" and task.uncancel() <= 0:
                raise self.error from error
        elif kind is None:
            interrupt.withdraw(self)
            raise self.error


def _seconds(timeout: Any) -> float:
    """Check a timeout.

    Raises:
        ValueError, TypeError: it is none.
    """
    if isinstance(timeout, timedelta):
        timeout = timeout.total_seconds()
    try:
        if 0 < timeout < _LONGEST:
            return timeout
    except TypeError:
        raise TypeError(f"timeout must be seconds or a timedelta, not {timeout!r}") from None
    raise ValueError(f"timeout must be above 0 seconds, not {timeout}")


def _action(on_timeout: Any) -> str:
    if on_timeout is None:
        return "report"
    if callable(on_timeout):
        return "call"
    if on_timeout in ("report", "dump", "raise", "abort"):
        return on_timeout
    raise ValueError(
        f"on_timeout must be 'report', 'dump', 'raise', 'abort' or a callable, not {on_timeout!r}"
    )


def _show(one: Any) -> None:
    page = current.page
    if page is None:
        return
    if one.number:
        page.enter(one.number, one.deadline)
    else:
        page.section(one.name, one.deadline)


def _leave(one: Any, *, strict: bool = True) -> None:
    inside = current.open
    if inside and inside[-1] is one:
        inside.pop()
    elif one in inside:
        del inside[len(inside) - 1 - inside[::-1].index(one)]
    elif strict:
        raise RuntimeError(f"section {one.name!r} is closed already")
    page = current.page
    if page is not None:
        if inside:
            _show(inside[-1])
        else:
            page.enter(NO_NAME)


def _drop_what_was_raised() -> None:
    """An exception may hit a section on its very way out, before it could leave the list."""
    inside = current.open
    while inside and inside[-1].deadline and inside[-1].error and inside[-1].action == "raise":
        inside.pop()


interrupt.keep_quiet(Timed.__exit__, Timed.__enter__, Timed._settle, _leave, _show)
interrupt.keep_quiet(Section.__exit__, Section.__enter__, PageWriter.mark, PageWriter.enter)


_plain: dict[str, Section] = {}
_visits: dict[str, tuple[int, float]] = {}
"""How often sections of a name were left, and the longest they took; for learned limits."""


def _note_visit(name: str, seconds: float) -> None:
    visits, longest = _visits.get(name, (0, 0.0))
    _visits[name] = (visits + 1, max(longest, seconds))


def _learned_limit(name: str) -> float | None:
    visits, longest = _visits.get(name, (0, 0.0))
    return max(_FLOOR, _TIMES * longest) if visits >= _LEARN_FROM else None


def section(
    name: str, timeout: float | timedelta | None = None, on_timeout: OnTimeout | None = None
) -> Section:
    """Name what the training does next; with a `timeout`, limit how long it may take.

    The verdict then says "in section 'load batch'" where it could only show a line of code.
    If the section is still open when the time is up, `on_timeout` decides what happens:

    - `"report"` (default): one line on stderr with the line of code it is at
    - `"dump"`: the same, with the stacks of all threads
    - a callable: called in a helper thread with a `SectionTimeout`
    - `"raise"`: `SectionTimeout` is raised in the thread that is in the section
    - `"abort"`: like `"dump"`, then the process ends (SIGABRT)

    With an `on_timeout` and no `timeout` the limit is learned: three times the longest so far
    and at least 3 s, once it has completed ten times.

    Raises:
        ValueError: `timeout` is not above 0, or `on_timeout` is not one of these.

    Example:
        >>> import unstuck
        >>> with unstuck.section("load batch", timeout=30, on_timeout="raise"):
        ...     batch = [1, 2, 3]
    """
    if timeout is None and on_timeout is None:
        try:
            return _plain[name]
        except (KeyError, TypeError):
            return _new_plain(name)
    return Timed(name, timeout, on_timeout)


def _new_plain(name: Any) -> Section:
    one = Section(name if isinstance(name, str) else str(name))
    if one.number and isinstance(name, str):
        _plain[name] = one
    return one
