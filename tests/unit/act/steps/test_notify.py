"""People are told by web hook and command; a secret is never printed, and nobody waits."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from unstuck.act.policy import Notify
from unstuck.act.steps.notify import notify, text_of
from unstuck.model.verdict import Cause, Confidence, Verdict

VERDICT = Verdict(
    Cause.PROCESS_CRASH, Confidence.CERTAIN, (), (), "", do=("look",), summary="Rank 2 died."
)


class Hook(HTTPServer):
    """A web hook on the loopback interface that keeps what it is sent."""

    def __init__(self, status: int) -> None:
        self.bodies: list[Any] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                server.bodies.append(json.loads(self.rfile.read(length)))
                self.send_response(status)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                return

        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_port}/T0/SECRET"


@pytest.fixture(params=[200])
def hook(request: pytest.FixtureRequest) -> Iterator[Hook]:
    with Hook(request.param) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def send(settings: Notify, plan: str = "") -> list[str]:
    said: list[str] = []
    for thread in notify(VERDICT, settings, plan, said.append):
        thread.join(20)
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
