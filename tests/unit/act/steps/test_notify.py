"""People are told by web hook and command; a secret is never printed, and nobody waits."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from clocks import FakeClock
from unstuck.act.policy import Notify, WebhookFormat
from unstuck.act.steps.notify import MOST_WAITING, PAUSES, notify, text_of
from unstuck.model.verdict import Cause, Confidence, Verdict

VERDICT = Verdict(
    Cause.PROCESS_CRASH, Confidence.CERTAIN, (), (), "", do=("look",), summary="Rank 2 died."
)


class Hook(HTTPServer):
    """A web hook on the loopback interface that keeps what it is sent."""

    def __init__(self, *statuses: int) -> None:
        self.bodies: list[Any] = []
        self.kinds: list[str] = []
        answers = list(statuses)
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                server.bodies.append(json.loads(self.rfile.read(length)))
                server.kinds.append(self.headers["Content-Type"])
                self.send_response(answers.pop(0) if answers[1:] else answers[0])
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                return

        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_port}/T0/SECRET"


@pytest.fixture(params=[200])
def hook(request: pytest.FixtureRequest) -> Iterator[Hook]:
    statuses = request.param if isinstance(request.param, tuple) else (request.param,)
    with Hook(*statuses) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def send(settings: Notify, plan: str = "") -> list[str]:
    said: list[str] = []
    clock = FakeClock()
    for thread in notify(VERDICT, settings, plan, said.append, source="vm/7", clock=clock):
        thread.join(20)
    assert clock.skipped <= sum(PAUSES)
    return said


def test_web_hook_gets_what_slack_understands(hook: Hook, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MY_HOOK", hook.address)
    assert send(Notify("MY_HOOK"), "restart it") == []
    assert hook.bodies == [{"text": text_of(VERDICT, "restart it")}]
    assert "Rank 2 died. (process-crash, certain)\nnext: restart it" in hook.bodies[0]["text"]


@pytest.mark.parametrize("hook", [403], indirect=True)
def test_refusal_is_said_without_the_address(hook: Hook, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("UNSTUCK_WEBHOOK", hook.address)
    assert send(Notify()) == ["could not notify: the web hook answered 403"]
    assert len(hook.bodies) == 1, "who refuses is not asked again"


@pytest.mark.parametrize("hook", [(503, 429, 200)], indirect=True)
def test_who_is_busy_is_asked_again(hook: Hook, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("UNSTUCK_WEBHOOK", hook.address)
    assert send(Notify()) == []
    assert len(hook.bodies) == 3


@pytest.mark.parametrize("hook", [503], indirect=True)
def test_but_not_for_ever(hook: Hook, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("UNSTUCK_WEBHOOK", hook.address)
    assert send(Notify()) == ["could not notify: the web hook answered 503"]
    assert len(hook.bodies) == 1 + len(PAUSES)


def test_messages_do_not_pile_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("UNSTUCK_WEBHOOK", raising=False)
    go_on = threading.Event()
    monkeypatch.setattr("unstuck.act.steps.notify._run", lambda *_: go_on.wait(20))
    said: list[str] = []
    threads = [
        thread
        for _ in range(MOST_WAITING + 1)
        for thread in notify(VERDICT, Notify(command=("true",)), "", said.append)
    ]
    threads[-1].join(20)
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert said == [f"could not notify: {MOST_WAITING} messages are waiting to be sent already"]


def test_an_event_bus_gets_a_cloud_event(hook: Hook, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("UNSTUCK_WEBHOOK", hook.address)
    assert send(Notify(webhook_format=WebhookFormat.CLOUDEVENTS)) == []
    assert hook.kinds == ["application/cloudevents+json; charset=utf-8"]
    assert hook.bodies[0]["data"]["verdict"]["cause"] == "process-crash"
    assert hook.bodies[0]["source"] == "/unstuck/vm/7"


@pytest.mark.parametrize("address", ["file:///etc/passwd", "http://127.0.0.1:1/SECRET", "nonsense"])
def test_bad_address_is_said_without_it(address: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("UNSTUCK_WEBHOOK", address)
    (said,) = send(Notify())
    assert said.startswith("could not notify: ")
    assert address not in said


def test_command_gets_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("UNSTUCK_WEBHOOK", raising=False)
    copy = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"
    out = tmp_path / "told"
    assert send(Notify(command=(sys.executable, "-c", copy, str(out)))) == []
    assert json.loads(out.read_text())["verdict"]["cause"] == "process-crash"


def test_nobody_to_notify_is_no_fault(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("UNSTUCK_WEBHOOK", raising=False)
    assert notify(VERDICT, Notify(), "") == []
    assert send(Notify(command=("/does/not/exist",))) == ["could not notify: FileNotFoundError"]
