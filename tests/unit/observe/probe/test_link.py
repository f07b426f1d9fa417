"""A rank asks the agent of its node: a real agent, a real hub, and both of them gone."""

import contextlib
import json
import os
import queue
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unstuck.observe.probe import link


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / link.SOCKET)


class Fake:
    """An agent that answers what it is told to."""

    def __init__(self, path: str, *answers: bytes) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(4)
        self.asked: queue.Queue[Any] = queue.Queue()
        self.answers = answers
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError, ValueError):
                self.asked.put(json.loads(connection.makefile().readline()))
                for answer in self.answers:
                    connection.sendall(answer)

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(5)


@pytest.fixture
def agents() -> Iterator[list[Fake]]:
    started: list[Fake] = []
    yield started
    for one in started:
        one.close()


def test_answer_comes_back(path: str, agents: list[Fake], monkeypatch: pytest.MonkeyPatch):
    agents.append(Fake(path, b'{"ranks": ', b'{"3": {}}}\n'))
    monkeypatch.setenv("UNSTUCK_LIVE_DIR", os.path.dirname(path))
    assert link.ask({"ask": "ranks"}, 5) == {"ranks": {"3": {}}}
    assert agents[0].asked.get(timeout=5) == {"ask": "ranks"}


def test_nobody_watches(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("UNSTUCK_LIVE_DIR", raising=False)
    assert link.ask({"ask": "ranks"}, 5) is None


@pytest.mark.parametrize("answer", [b"", b"no json\n", b"[1]\n", b'{"half": '])
def test_answer_that_makes_no_sense_is_none(path: str, agents: list[Fake], answer: bytes):
    agents.append(Fake(path, answer))
    assert link.ask({"ask": "ranks"}, 5, at=path) is None


def test_question_that_cannot_be_sent_is_none(path: str, agents: list[Fake]):
    agents.append(Fake(path, b"{}\n"))
    assert link.ask({"ask": object()}, 5, at=path) is None
    assert link.ask({"ask": "x" * link.MOST_QUESTION}, 5, at=path) is None


def test_agent_that_does_not_answer_costs_the_timeout_and_no_more(path: str):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        waiting = [socket.socket(socket.AF_UNIX)]
        waiting[0].connect(path)  # the queue of the one that never accepts is full now
        for _ in range(2):
            began = time.monotonic()
            assert link.ask({"ask": "ranks"}, 0.2, at=path) is None
            assert 0.15 < time.monotonic() - began < 1.0
        waiting[0].close()


def test_answer_that_never_ends_is_cut_off(
    path: str, agents: list[Fake], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(link, "MOST_ANSWER", 1 << 17)
    agents.append(Fake(path, *[b"x" * (1 << 16)] * 8))
    assert link.ask({"ask": "ranks"}, 5, at=path) is None


def test_subscriber_hears_and_finds_the_next_agent(path: str):
    heard: queue.Queue[dict[str, Any]] = queue.Queue()
    first = Fake(path, b'{"subscribed": "verdicts"}\n', b'{"verdict": 1}\n')
    subscription = link.Subscription("verdicts", heard.put, at=path)
    try:
        assert heard.get(timeout=5) == {"verdict": 1}
        first.close()
        os.unlink(path)
        second = Fake(
            path, b'{"subscribed": "verdicts"}\n', b'{"verdict": 1}\n', b'{"verdict": 2}\n'
        )
        assert heard.get(timeout=5) == {"verdict": 2}, "what was heard already is not repeated"
        second.close()
    finally:
        subscription.close()
    assert not subscription._thread.is_alive()


def test_subscriber_that_fails_goes_on(path: str, agents: list[Fake]):
    heard: queue.Queue[dict[str, Any]] = queue.Queue()

    def hear(message: dict[str, Any]) -> None:
        heard.put(message)
        raise KeyError("the user's own mistake")

    agents.append(Fake(path, b'{"subscribed": "peers"}\n', b'{"n": 1}\n', b"[2]\n", b'{"n": 3}\n'))
    subscription = link.Subscription("peers", hear, at=path)
    assert [heard.get(timeout=5), heard.get(timeout=5)] == [{"n": 1}, {"n": 3}]
    subscription.close()


def test_fork_asks_for_itself_and_lets_go_of_its_parents_subscription(path: str):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(4)
        subscription = link.Subscription("verdicts", lambda _: None, at=path)
        ours, _ = listener.accept()
        ours.makefile().readline()
        ours.sendall(b'{"subscribed": "verdicts"}\n')
        assert subscription.connected.wait(5)
        child = os.fork()
        if child == 0:
            alone = subscription._over.is_set() and link.ask({"ask": "peers"}, 5, at=path) == {}
            os._exit(0 if alone else 1)
        asking, _ = listener.accept()
        asking.recv(100)
        asking.sendall(b"{}\n")
        assert os.waitpid(child, 0)[1] == 0
        assert not subscription._over.is_set()
        asking.close()
        ours.close()
        subscription.close()
