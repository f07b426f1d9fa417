"""`unstuck ctl`: finds the agent of the job, sends what was asked, prints what came of it."""

import json
import socket
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from unstuck.show.cli.main import main

Answer = dict[str, Any]
FINE: Answer = {"said": "", "learned": 3.0, "controls": {}}


class FakeAgent:
    """Listens where an agent would, and answers every question with the same."""

    def __init__(self, live: Path, answer: Answer | None) -> None:
        live.mkdir(parents=True)
        self.heard: list[dict[str, Any]] = []
        self._answer = answer
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(live / "agent.sock"))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rwb") as file:
                self.heard.append(json.loads(file.readline()))
                if self._answer is not None:
                    file.write(json.dumps(self._answer).encode() + b"\n")
                    file.flush()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)


StartAgent = Callable[..., FakeAgent]


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[StartAgent]:
    monkeypatch.chdir(tmp_path)
    started: list[FakeAgent] = []

    def start(answer: Answer | None = FINE, run: str = "runs/7") -> FakeAgent:
        live = tmp_path / f"l{len(started)}"
        started.append(FakeAgent(live, answer))
        Path(run).mkdir(parents=True)
        (Path(run) / "live-vm-1").symlink_to(live)
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pause"], {"do": "pause", "for": 3600.0}),
        (["pause", "--for", "10m"], {"do": "pause", "for": 600.0}),
        (["resume"], {"do": "resume"}),
        (["set", "--patience", "90"], {"do": "set", "patience": 90.0}),
        (["set", "--patience", "auto"], {"do": "set", "patience": None}),
        (
            ["set", "--section", "load batch=5m", "--section", "a=b=auto"],
            {"do": "set", "sections": {"load batch": 300.0, "a=b": None}},
        ),
        (["status"], {"do": "status"}),
    ],
)
def test_what_is_asked_reaches_the_agent(
    agent: StartAgent, arguments: list[str], message: dict[str, Any]
) -> None:
    listening = agent()
    assert main(["ctl", *arguments]) == 0
    assert main(["ctl", *arguments, "runs/7"]) == 0
    assert listening.heard == [{"ctl": message}] * 2


def test_status_says_how_things_stand(
    agent: StartAgent, capsys: pytest.CaptureFixture[str]
) -> None:
    controls = {"paused_left": 50.2, "patience": 60.0, "sections": {"save": 600.0}}
    agent({"said": "", "learned": 3.0, "controls": controls})
    main(["ctl", "status"])
    assert capsys.readouterr().out.splitlines() == [
        "paused for another 50 s: deaths are reported, stalls are not",
        "patience: 60 s (learned: 3 s)",
        "section save: 600 s",
    ]
    main(["ctl", "status", "--json"])
    assert json.loads(capsys.readouterr().out)["schema"] == "unstuck.ctl/1"


def test_a_refusal_of_the_hub_is_an_error(
    agent: StartAgent, capsys: pytest.CaptureFixture[str]
) -> None:
    agent({"error": "for must be 0.001 to 86400 seconds"})
    assert main(["ctl", "pause", "--for", "30d"]) == 2
    assert "for must be" in capsys.readouterr().err


def test_of_several_jobs_one_must_be_named(
    agent: StartAgent, capsys: pytest.CaptureFixture[str]
) -> None:
    agent(run="runs/7")
    second = agent(run="runs/8")
    assert main(["ctl", "status"]) == 2
    assert "runs/7, runs/8" in capsys.readouterr().err
    assert main(["ctl", "status", "runs/8"]) == 0
    assert len(second.heard) == 1


def test_a_job_that_asked_for_its_watchers_itself_has_no_link(
    agent: StartAgent, tmp_path: Path
) -> None:
    listening = agent()
    run = Path("runs/7")
    live = (run / "live-vm-1").resolve()
    (run / "live-vm-1").unlink()
    (run / "unstuck.json").write_text(json.dumps({"live": str(live)}))
    (run / "unstuck-other-9.json").write_text("{")
    assert main(["ctl", "status"]) == 0
    assert len(listening.heard) == 1


def test_no_job_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["ctl", "status"]) == 2
    assert "no job is running below runs/" in capsys.readouterr().err


def test_an_agent_that_does_not_answer(
    agent: StartAgent, capsys: pytest.CaptureFixture[str]
) -> None:
    agent(None)
    assert main(["ctl", "status"]) == 3
    assert "does not answer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["set"], "nothing to set"),
        (["set", "--patience", "long"], "--patience long is not a duration"),
        (["set", "--section", "save"], "is not NAME=TIME"),
        (["pause", "--for", "0"], "--for 0 is not a duration"),
    ],
)
def test_nonsense_is_refused_before_anybody_is_asked(
    agent: StartAgent, capsys: pytest.CaptureFixture[str], arguments: list[str], word: str
) -> None:
    listening = agent()
    assert main(["ctl", *arguments]) == 2
    assert word in capsys.readouterr().err
    assert listening.heard == []
