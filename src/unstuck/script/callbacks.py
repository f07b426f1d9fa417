"""`on_verdict`, `on_silent`, `on_back` and `peers`: what the watchers know, in the ranks.

Callbacks run in helper threads, each in its own: one that blocks, or waits for another rank,
holds up neither the training nor the other callbacks. Every rank that registers one gets
the calls; in a process that nobody watches there are none, and that is not an error.
"""

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from unstuck.observe.probe import link
from unstuck.observe.probe.this_process import rank_text
from unstuck.script.deadlines import tell

__all__ = ["Callback", "Peer", "Peers", "View", "on_back", "on_silent", "on_verdict", "peers"]

_MOST_WAITING = 64
"""Calls that wait for a callback that does not return; then the oldest are dropped."""


class View(dict[str, Any]):
    """A JSON object whose fields are attributes as well: `verdict.culprits[0].rank`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return _view(self[name])
        except KeyError:
            raise AttributeError(f"there is no field {name}, only {', '.join(self)}") from None


def _view(value: Any) -> Any:
    if isinstance(value, dict):
        return View(value)
    return [_view(one) for one in value] if isinstance(value, list) else value


class Peer(NamedTuple):
    """One rank as the watchers see it."""

    rank: int
    host: str
    state: str
    """See `observe/probe/link.py`; silent are `gone`, `silent`, `stopped` and `frozen`."""
    alive: bool
    silent: bool
    since: str
    """Of its last sign of progress, or of its end: ISO 8601, UTC."""
    seconds: float


class Peers(NamedTuple):
    """All ranks and nodes of the job."""

    ranks: dict[int, Peer]
    nodes: dict[str, View]
    whole: bool
    """False when only this node could be asked, or nobody."""
    why: str

    @property
    def silent(self) -> list[int]:
        """The ranks that are silent."""
        return [rank for rank, peer in self.ranks.items() if peer.silent]


class Callback:
    """A function that is called when something happens, until it is closed."""

    def __init__(self, function: Callable[[Any], object], what: str) -> None:
        if not callable(function):
            raise TypeError(f"{what} needs a function to call, not {function!r}")
        self._function = function
        self._what = what
        self._waiting: deque[Any] = deque(maxlen=_MOST_WAITING)
        self._news = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def __call__(self, value: Any) -> object:
        """Call the function itself: where `on_verdict` was used as a decorator."""
        return self._function(value)

    def close(self) -> None:
        """Stop calling it."""
        self._closed = True
        self._waiting.clear()
        self._news.set()

    def put(self, value: Any) -> None:
        """Have it called soon, in its own thread."""
        if self._closed:
            return
        self._waiting.append(value)
        self._news.set()
        if self._thread is None:
            name = f"unstuck {self._what}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._closed:
            self._news.wait()
            self._news.clear()
            while self._waiting:
                try:
                    self._function(self._waiting.popleft())
                except Exception as error:
                    what = f"{type(error).__name__}: {error}"
                    tell(f"{rank_text()}the function given to {self._what} failed: {what}")


class _Topic:
    """One subscription for all callbacks of a topic."""

    def __init__(self, name: str, spread: Callable[[dict[str, Any]], None]) -> None:
        self._name = name
        self._spread = spread
        self._subscription: link.Subscription | None = None
        self._lock = threading.Lock()

    def need(self) -> None:
        with self._lock:
            if self._subscription is None:
                self._subscription = link.Subscription(self._name, self._spread)

    def forget(self) -> None:
        """In a fork: nobody is subscribed, and nobody can hold the lock."""
        self._lock = threading.Lock()
        self._subscription = None


_callbacks: dict[str, list[Callback]] = {"verdict": [], "over": [], "silent": [], "back": []}


def _spread_verdict(message: dict[str, Any]) -> None:
    verdict = message.get("verdict")
    if verdict is None:
        _put("over", None)
    elif verdict.get("attempt", 0) >= int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") or 0):
        _put("verdict", View(verdict))


def _spread_peers(message: dict[str, Any]) -> None:
    for rank, one in message.get("ranks", {}).items():
        if rank != os.environ.get("RANK"):
            _put(str(message.get("event")), _peer(rank, one))


def _put(kind: str, value: Any) -> None:
    for callback in list(_callbacks.get(kind, ())):
        callback.put(value)


_verdicts = _Topic("verdicts", _spread_verdict)
_peers = _Topic("peers", _spread_peers)


def on_verdict(
    function: Callable[[View], object], *, on_recovery: Callable[[None], object] | None = None
) -> Callback:
    """Call a function with every verdict, in a helper thread of every rank that asks for it.

    The verdict has the fields of `unstuck.verdict/1`, as attributes and as keys. `on_recovery`
    is called with None when nothing is wrong any more.

    Example:
        >>> import unstuck
        >>> @unstuck.on_verdict
        ... def leave(verdict):
        ...     print(verdict.cause, [culprit.rank for culprit in verdict.culprits])
        >>> leave.close()
    """
    if on_recovery is not None:
        _callbacks["over"].append(Callback(on_recovery, "on_recovery"))
    return _register("verdict", function, "on_verdict", _verdicts)


def on_silent(function: Callable[[Peer], object]) -> Callback:
    """Call a function with every other rank that falls silent: dead, stopped, frozen, cut off.

    Example:
        >>> import unstuck
        >>> watch = unstuck.on_silent(lambda peer: print(peer.rank, peer.state))
        >>> watch.close()
    """
    return _register("silent", function, "on_silent", _peers)


def on_back(function: Callable[[Peer], object]) -> Callback:
    """Call a function with every other rank that was silent and has recovered."""
    return _register("back", function, "on_back", _peers)


def _register(kind: str, function: Callable[[Any], object], what: str, topic: _Topic) -> Callback:
    callback = Callback(function, what)
    _callbacks[kind] = [one for one in _callbacks[kind] if not one._closed] + [callback]
    topic.need()
    return callback


def peers(timeout: float = 1.5) -> Peers:
    """Return which ranks and nodes of the job are alive and which are silent.

    Takes a millisecond or two, and never longer than `timeout`.

    Example:
        >>> import unstuck
        >>> unstuck.peers().silent
        []
    """
    answer = link.ask({"ask": "peers"}, timeout)
    if answer is None or "error" in answer:
        why = "the agent does not answer" if link.address() else "this process is not watched"
        return Peers({}, {}, whole=False, why=why)
    return Peers(
        {int(rank): _peer(rank, one) for rank, one in answer["ranks"].items()},
        {node: View(one) for node, one in answer["nodes"].items()},
        bool(answer["whole"]),
        str(answer["why"]),
    )


def _peer(rank: str, one: dict[str, Any]) -> Peer:
    return Peer(int(rank), *(one[field] for field in Peer._fields[1:]))


def _in_child() -> None:
    """A fork is no rank: what its parent asked for is not called in it."""
    for found in _callbacks.values():
        found.clear()
    _verdicts.forget()
    _peers.forget()


os.register_at_fork(after_in_child=_in_child)
