"""A rank's connection to the agent of its node: ask a question, or subscribe to events.

The agent listens on a unix socket in the live directory of the run (mode 0700). Both sides
send lines of JSON, one object a line:

    {"ask": "ranks"}                       what every rank of the job is doing
    {"ask": "ranks", "ranks": [3, 5]}      the same for these only
    {"ask": "peers"}                       which nodes and ranks are alive, which are silent
    {"ask": "job"}                         the job in brief (`pipelines/job_status.py`)
    {"ask": "view"}                        the whole job (`explain/view/job_view.py`)
    {"ask": "rank", "rank": 3}             one rank (`explain/view/rank_view.py`)
    {"ask": "stacks", "ranks": [3]}        the stacks of these ranks, as far as they are known
    {"ask": "dump"}                        store the job as it is; see `pipelines/readers.py`
    {"ctl": {...}}                         handed to the hub as it is; its answer comes back
    {"note": {...}}                        a note for other ranks; see `collect/hub/notes.py`
    {"subscribe": "verdicts"}              then one line for every verdict (unstuck.verdict/1)
    {"subscribe": "peers"}                 then one line whenever somebody falls silent or is back
    {"subscribe": "orders"}                then one line for every order that this rank has to obey

`{"ask": "ranks"}` is answered with

    {"ranks": {"3": {"host", "state", "doing", "file", "line", "function", "since", "seconds"}},
     "whole": true, "why": ""}

`state` is one of `starting`, `running`, `waiting` (in a collective, a send or a receive),
`stopped`, `frozen` (its Python code does not run), `silent` (its node is), `left`, `failed`,
`gone`, `unobserved`. `doing` reads on after "rank 3"; `since` is ISO 8601 in UTC and `seconds`
how long ago that was. `whole` is false, with the reason in `why`, when the hub could not be
asked and the answer covers the ranks of this node only. What goes wrong is `{"error": "..."}`.

Nothing here raises because of the agent, waits longer than its timeout, or keeps a
process from ending. A fork may ask; the subscriptions of its parent are not its own.
"""

import atexit
import contextlib
import json
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

SOCKET = "agent.sock"
FOR_READERS = ("job", "view", "rank", "stacks", "dump")
"""Questions that only the hub can answer."""
MOST_QUESTION = 64 << 10
MOST_ANSWER = 8 << 20
_RETRY_FIRST, _RETRY_LONGEST = 0.1, 1.0
_BACKLOG_FULL_PAUSE = 0.02


def ask(question: dict[str, Any], timeout: float, at: str | None = None) -> dict[str, Any] | None:
    """Ask the agent of this node; None where there is no agent or no answer in time.

    `at` is the path of its socket, for a process that is not a rank of the run.

    Example:
        >>> ask({"ask": "ranks"}, timeout=0.5) is None  # nobody watches this process
        True
    """
    deadline = time.monotonic() + timeout
    try:
        path = at or address()
        if path is None:
            return None
        with _connect(path, deadline) as connection:
            _send(connection, question, deadline)
            found = _Lines(connection).next(deadline)
        return found if isinstance(found, dict) else None
    except Exception:
        return None


def address() -> str | None:
    """Return the path of the agent's socket; None in a process that nobody watches."""
    live = os.environ.get("UNSTUCK_LIVE_DIR")
    return os.path.join(live, SOCKET) if live else None


class Subscription:
    """Calls `hear` in a daemon thread with every message of a topic, until it is closed.

    It reconnects to an agent that was restarted.
    """

    def __init__(
        self, topic: str, hear: Callable[[dict[str, Any]], None], at: str | None = None
    ) -> None:
        self.topic = topic
        self.connected = threading.Event()
        """Set while there is a connection to the agent."""
        self._hear = hear
        self._at = at
        self._over = threading.Event()
        self._connection: socket.socket | None = None
        self._last: list[str] = []
        self._thread = threading.Thread(target=self._run, name=f"unstuck {topic}", daemon=True)
        _open.add(self)
        self._thread.start()

    def close(self) -> None:
        """End it; a message that is being handled at this moment is handled to the end."""
        self._over.set()
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=0.5)

    def forget(self) -> None:
        """In a fork: let go of the connection, which is the parent's."""
        self._over.set()
        if self._connection is not None:
            self._connection.close()

    def _run(self) -> None:
        pause = _RETRY_FIRST
        while not self._over.is_set():
            began = time.monotonic()
            try:
                self._listen()
            except Exception:
                pass  # no agent at the moment
            self.connected.clear()
            # A connection that held for a while was a whole one: try again soon.
            held = time.monotonic() - began > 1.0
            pause = _RETRY_FIRST if held else min(_RETRY_LONGEST, pause * 1.5)
            self._over.wait(pause)

    def _listen(self) -> None:
        path = self._at or address()
        if path is None:
            return
        deadline = time.monotonic() + 5
        with _connect(path, deadline) as connection:
            self._connection = connection
            _send(connection, {"subscribe": self.topic}, deadline)
            lines = _Lines(connection)
            if not isinstance(first := lines.next(deadline), dict) or "error" in first:
                return
            self.connected.set()
            while not self._over.is_set() and (message := lines.next(None)) is not None:
                self._tell(message)

    def _tell(self, message: Any) -> None:
        """Hand a message on once: after a reconnection the agent repeats what still holds."""
        key = json.dumps(message, sort_keys=True)
        if not isinstance(message, dict) or key in self._last:
            return
        self._last = [*self._last[-15:], key]
        try:
            self._hear(message)
        except Exception:
            pass  # whoever subscribed says by itself what went wrong


class _Lines:
    """Reads lines of JSON from a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray()

    def next(self, deadline: float | None) -> Any:
        """Return the next object; None at the end of the connection.

        Raises:
            OSError: nothing whole came in time.
            ValueError: what came is too long, or not JSON.
        """
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > MOST_ANSWER:
                raise ValueError("the answer is too long")
            _limit(self._connection, deadline)
            if not (more := self._connection.recv(1 << 16)):
                return None
            self._buffer += more
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return json.loads(line)


def _connect(path: str, deadline: float) -> socket.socket:
    """Connect in time.

    Raises:
        OSError: nobody listens there, or nobody accepts in time.
    """
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _limit(connection, deadline)
            connection.connect(path)
        except BlockingIOError:
            # Its queue is full: unlike a TCP socket, this one does not wait for a place.
            connection.close()
            time.sleep(_BACKLOG_FULL_PAUSE)
        except BaseException:
            connection.close()
            raise
        else:
            return connection


def _send(connection: socket.socket, question: dict[str, Any], deadline: float) -> None:
    raw = json.dumps(question, separators=(",", ":")).encode() + b"\n"
    if len(raw) > MOST_QUESTION:
        raise ValueError("the question is too long")
    _limit(connection, deadline)
    connection.sendall(raw)


def _limit(connection: socket.socket, deadline: float | None) -> None:
    left = None if deadline is None else deadline - time.monotonic()
    if left is not None and left <= 0:
        raise TimeoutError
    connection.settimeout(left)


_open: "weakref.WeakSet[Subscription]" = weakref.WeakSet()


def _forget_all() -> None:
    for one in list(_open):
        with contextlib.suppress(Exception):
            one.forget()
    _open.clear()


def _close_all() -> None:
    for one in list(_open):
        with contextlib.suppress(Exception):
            one.close()


os.register_at_fork(after_in_child=_forget_all)
atexit.register(_close_all)
