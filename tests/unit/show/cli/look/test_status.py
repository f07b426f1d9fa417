"""`unstuck status`: text, JSON, and an exit code that a script can go by."""

import json
from collections.abc import Callable

import pytest

from scenes import job
from served_runs import ServedRun
from unstuck.show.cli.main import main

Serve = Callable[..., ServedRun]


def test_a_stalled_job_exits_with_1(serve: Serve, capsys: pytest.CaptureFixture[str]):
    serve()
    assert main(["status"]) == 1
    assert "stalled for" in capsys.readouterr().out
    assert main(["status", "7", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "unstuck.status/1"
    assert [one["rank"] for one in found["laggards"]] == [2]
    assert found["open"][0]["bundle"] == "incident-1"


def test_a_healthy_job_and_one_that_has_ended_exit_with_0(serve: Serve):
    serve("8", job(4).snapshot())
    assert main(["status"]) == 0
    serve("7").end()
    assert main(["status", "7"]) == 0


def test_a_job_whose_watchers_are_gone_exits_with_3(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    served = serve()
    monkeypatch.setattr("unstuck.show.runs.WITHIN", 0.2)
    (served.path / "unstuck.json").write_text(json.dumps({"pid": 1}))
    monkeypatch.setattr(served._readers, "answer", lambda _: {"error": "no answer from the hub"})
    assert main(["status"]) == 3
    assert "unwatched" in capsys.readouterr().out


def test_no_run_at_all(serve: Serve, capsys: pytest.CaptureFixture[str]):
    assert main(["status"]) == 2
    assert "there is no run below runs/" in capsys.readouterr().err
