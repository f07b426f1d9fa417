"""`on_verdict`, `on_silent`, `on_back` and `peers` in a rank, by what its agent tells."""

import json
import os
import queue
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import unstuck
from children import until
from unstuck.observe.probe import link
from unstuck.script import callbacks

VERDICT = {"cause": "process-stopped", "culprits": [{"rank": 2, "host": "a"}], "attempt": 0}


class FakeAgent:
    """Accepts subscriptions and says what it is told to."""

    def __init__(self, path: str) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(8)
        self.heard: queue.Queue[tuple[dict[str, Any], socket.socket]] = queue.Queue()
        self.kept: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.kept.append(connection)
            self.heard.put((json.loads(connection.makefile().readline()), connection))

    def accept(self, topic: str) -> socket.socket:
        question, connection = self.heard.get(timeout=10)
        assert question == {"subscribe": topic}
        connection.sendall(json.dumps({"subscribed": topic}).encode() + b"\n")
        return connection

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.kept:
            connection.close()


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAgent]:
    monkeypatch.setenv("UNSTUCK_LIVE_DIR", str(tmp_path))
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    agent = FakeAgent(str(tmp_path / link.SOCKET))
    yield agent
    for topic in (callbacks._verdicts, callbacks._peers):
        if topic._subscription is not None:
            topic._subscription.close()
    for registered in callbacks._callbacks.values():
        for one in registered:
            one.close()
    callbacks._in_child()
    agent.close()


def say(connection: socket.socket, *messages: Any) -> None:
    for message in messages:
        connection.sendall(json.dumps(message).encode() + b"\n")


def test_verdict_comes_in_a_helper_thread_with_its_fields(agent: FakeAgent):
    told: queue.Queue[Any] = queue.Queue()

    @unstuck.on_verdict
    def note(verdict: Any) -> None:
        told.put((verdict, threading.current_thread().name))

    say(agent.accept("verdicts"), {"schema": "unstuck.verdict/1", "verdict": VERDICT})
    verdict, thread = told.get(timeout=10)
    assert (verdict.cause, verdict["cause"], thread) == (
        "process-stopped", "process-stopped", "unstuck on_verdict",
    )  # fmt: skip
    assert [culprit.rank for culprit in verdict.culprits] == [2]
    with pytest.raises(AttributeError, match="there is no field colour, only cause"):
        _ = verdict.colour
    assert isinstance(note, callbacks.Callback)


def test_callback_that_blocks_or_fails_holds_up_no_other(
    agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
):
    lines: list[str] = []
    monkeypatch.setattr(callbacks, "tell", lines.append)
    told: queue.Queue[Any] = queue.Queue()
    stuck, over = threading.Event(), threading.Event()

    def block(_: Any) -> None:
        stuck.set()
        over.wait(20)

    def fail(_: Any) -> None:
        raise KeyError("mine")

    unstuck.on_verdict(block)
    unstuck.on_verdict(fail)
    unstuck.on_verdict(told.put)
    connection = agent.accept("verdicts")
    for n in range(3):
        say(connection, {"verdict": {**VERDICT, "step": n}})
    assert [told.get(timeout=10).step for _ in range(3)] == [0, 1, 2]
    assert stuck.wait(10)
    over.set()
    until(lambda: len(lines) == 3)
    assert set(lines) == {"rank 0: the function given to on_verdict failed: KeyError: 'mine'"}


def test_recovery_is_told(agent: FakeAgent):
    told: queue.Queue[Any] = queue.Queue()
    unstuck.on_verdict(lambda verdict: told.put(verdict.cause), on_recovery=told.put)
    connection = agent.accept("verdicts")
    say(connection, {"verdict": VERDICT}, {"verdict": None})
    assert {told.get(timeout=10), told.get(timeout=10)} == {"process-stopped", None}


def test_verdict_of_an_attempt_before_this_one_is_not_ours(
    agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    told: queue.Queue[Any] = queue.Queue()
    unstuck.on_verdict(told.put)
    connection = agent.accept("verdicts")
    say(connection, {"verdict": VERDICT}, {"verdict": {**VERDICT, "attempt": 1}})
    assert told.get(timeout=10).attempt == 1
    assert told.empty()


def test_peers_fall_silent_and_are_back(agent: FakeAgent):
    silent: queue.Queue[unstuck.Peer] = queue.Queue()
    back: queue.Queue[unstuck.Peer] = queue.Queue()
    unstuck.on_silent(silent.put)
    unstuck.on_back(back.put)
    one = {
        "host": "b",
        "state": "stopped",
        "alive": True,
        "silent": True,
        "since": "",
        "seconds": 1,
    }
    connection = agent.accept("peers")
    say(connection, {"event": "silent", "ranks": {"0": one, "3": one}})
    peer = silent.get(timeout=10)
    assert (peer.rank, peer.state, peer.host) == (3, "stopped", "b"), "this rank itself is not told"
    say(connection, {"event": "back", "ranks": {"3": one}})
    assert back.get(timeout=10).rank == 3
    assert silent.empty()


def test_closed_callback_is_not_called(agent: FakeAgent):
    told: queue.Queue[Any] = queue.Queue()
    first = unstuck.on_verdict(lambda _: told.put("first"))
    unstuck.on_verdict(lambda _: told.put("second"))
    first.close()
    say(agent.accept("verdicts"), {"verdict": VERDICT})
    assert told.get(timeout=10) == "second"
    assert told.empty()


def test_fork_is_called_for_nothing(agent: FakeAgent):
    unstuck.on_verdict(lambda _: None)
    agent.accept("verdicts")
    child = os.fork()
    if child == 0:
        os._exit(len(callbacks._callbacks["verdict"]))
    assert os.waitpid(child, 0)[1] == 0
    assert len(callbacks._callbacks["verdict"]) == 1


def test_peers_where_nobody_watches(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("UNSTUCK_LIVE_DIR", raising=False)
    found = unstuck.peers()
    assert (found.ranks, found.whole, found.why) == ({}, False, "this process is not watched")
    monkeypatch.setenv("UNSTUCK_LIVE_DIR", "/nowhere")
    assert unstuck.peers().why == "the agent does not answer"


@pytest.mark.parametrize("register", [unstuck.on_verdict, unstuck.on_silent, unstuck.on_back])
def test_something_that_cannot_be_called(register: Any):
    with pytest.raises(TypeError, match=f"{register.__name__} needs a function to call, not 7"):
        register(7)
