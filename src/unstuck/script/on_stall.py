"""`@unstuck.on_stall` and `StallError`: a healthy rank is informed of a stall, saves and leaves.

Both come only where `unstuck run` was started with a policy that asks for them (`checkpoint`,
`raise`). A helper thread hears the order and signals the main thread; the agent then shuts the
sockets between the ranks, so that also a rank in a hung gloo collective comes back to Python, where
the handler of the signal calls the hooks or raises.
"""

import json
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar, overload

from unstuck.observe.probe import link
from unstuck.observe.probe.this_process import rank_text
from unstuck.script.deadlines import tell
from unstuck.script.wake_main import wake_main

SIGNAL = signal.SIGRTMIN + 7
HOLD_LONGEST = 120.0
"""Seconds that a rank that has saved waits at most for the others before it ends."""

Hook = Callable[["StallError"], Any]
H = TypeVar("H", bound=Hook)


class StallError(RuntimeError):
    """The job has stalled and this rank is not to blame: save what you have and leave.

    A `RuntimeError`, as the collective would have raised it. The group it was in is dead.
    """

    def __init__(self, summary: str, verdict: dict[str, Any] | None = None) -> None:
        super().__init__(summary)
        self.summary = summary
        self.verdict = verdict or {}
        """The verdict as in `verdict.json`; see `unstuck.verdict/1`."""


class _State:
    """What this process has registered and what is going on."""

    hooks: "list[tuple[Hook, float]]"
    subscription: link.Subscription | None = None
    handles = False
    phase = ""
    seconds = 0.0
    pending: dict[str, Any] | None = None
    handled = False
    heard: "set[int]"
    released: threading.Event


_state = _State()
_state.hooks = []
_state.heard = set()
_state.released = threading.Event()


@overload
def on_stall(hook: H) -> H: ...
@overload
def on_stall(*, timeout: float) -> Callable[[H], H]: ...
def on_stall(hook: H | None = None, *, timeout: float = 0.0) -> H | Callable[[H], H]:
    """Call a function in the main thread when the job has stalled and a policy asks for it.

    It gets the `StallError`, and up to `timeout` seconds, else what the policy gives it. It must
    not use collectives: they are dead. An exception in it is reported and stops nothing else.

    Example:
        >>> import unstuck
        >>> @unstuck.on_stall
        ... def save(error: unstuck.StallError) -> None:
        ...     print("saving, because", error)
    """
    if timeout < 0:
        raise ValueError(f"timeout must not be below 0 seconds, not {timeout}")

    def register(function: H) -> H:
        _state.hooks.append((function, float(timeout)))
        _state.seconds = sum(seconds for _, seconds in _state.hooks)
        if not _state.phase:
            _state.phase = "ready"
        attach()
        return function

    return register(hook) if hook is not None else register


def attach() -> None:
    """Begin to hear orders, in a rank that is watched. Called by the probe and by `on_stall`."""
    try:
        if "UNSTUCK_PROBED" not in os.environ or _state.subscription is not None:
            return
        if os.environ.get("UNSTUCK_OBEY") != "1":
            return
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(SIGNAL) == signal.SIG_DFL:
            signal.signal(SIGNAL, _handle)
            _state.handles = True
            _state.subscription = link.Subscription("orders", _hear)
    except Exception:
        return


def report() -> dict[str, Any]:
    """Return what the page should say about the hooks; empty where none could be called."""
    if not _state.hooks or not _state.handles:
        return {}
    return {"hook": _state.phase, "hook_seconds": _state.seconds}


def _hear(message: dict[str, Any]) -> None:
    """In the helper thread: take an order for this process and wake the main thread."""
    if message.get("pid") != os.getpid() or message.get("number") in _state.heard:
        return
    _state.heard.add(message["number"])
    if message.get("order") == "raise":
        _state.released.set()
    if _state.pending is None:
        _state.pending = message
        wake_main(SIGNAL, lambda: _state.handled)


def _handle(_signal: int, _frame: FrameType | None) -> None:
    """In the main thread, as soon as it runs Python code again."""
    order = _state.pending
    if order is None or _state.handled:
        return
    _state.handled = True
    error = StallError(str(order.get("summary", "")), _verdict(order))
    if order.get("order") == "hook":
        _call_hooks(error)
        # Who leaves first would have the launcher end those that still save.
        _state.released.wait(min(HOLD_LONGEST, float(order.get("seconds", 0.0)) + 10.0))
    raise error


def _call_hooks(error: StallError) -> None:
    _state.phase = "running"
    failed = False
    for hook, _ in _state.hooks:
        try:
            hook(error)
        except Exception as problem:
            failed = True
            tell(f"{rank_text()}on_stall hook failed: {type(problem).__name__}: {problem}")
    _state.phase = "failed" if failed else "done"


def _verdict(order: dict[str, Any]) -> dict[str, Any]:
    try:
        found = json.loads(order.get("verdict", "{}"))
        return found.get("verdict") or {}
    except Exception:
        return {}


def _forget() -> None:
    _state.subscription = None
    _state.handles = False
    _state.pending = None
    _state.handled = False


os.register_at_fork(after_in_child=_forget)
