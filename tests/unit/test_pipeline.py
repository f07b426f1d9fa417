"""Snapshots in, reports out: once per stall, not about consequences, whatever the disk does."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from scenes import Scene, job, one_sleeps
from unstuck.collect import bundle
from unstuck.model.evidence import EvidenceKind
from unstuck.model.snapshot import Snapshot
from unstuck.pipeline import Pipeline

COMMAND = ["torchrun", "train.py"]
Said = Callable[[], str]


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return Pipeline(tmp_path, COMMAND, "host0")


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """Return what was said since the last call."""
    return lambda: capsys.readouterr().err


def stalled(attempt: int = 0) -> Snapshot:
    return msgspec.structs.replace(one_sleeps().snapshot(), attempt=attempt)


def moving() -> Snapshot:
    return job(4).snapshot()


def crashed() -> Scene:
    scene = job(4)
    for rank in (0, 1, 3):
        scene.enter(rank)
    return scene.end(2, -9, 5.0)


def test_healthy_job_is_left_in_peace(pipeline: Pipeline, tmp_path: Path, said: Said):
    for _ in range(3):
        assert pipeline.judge(moving()) == ()
    assert said() == ""
    assert list(tmp_path.iterdir()) == []


def test_stall_is_told_and_stored_once(pipeline: Pipeline, tmp_path: Path, said: Said):
    pipeline.judge(stalled())
    text = said()
    assert "rank 2" in text
    assert str(tmp_path / "incident-1") in "".join(text.split())
    for _ in range(5):
        pipeline.judge(stalled())

    assert said() == ""
    incident = bundle.read(tmp_path)
    assert incident.path.name == "incident-1"
    assert incident.verdict is not None
    assert [culprit.rank for culprit in incident.verdict.culprits] == [2]
    assert incident.about["command"] == COMMAND


def test_acts_are_in_the_ledger(pipeline: Pipeline, tmp_path: Path):
    pipeline.judge(stalled())
    acts = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    assert [act["act"] for act in acts] == ["dump", "report"]
    assert acts[0]["summary"].startswith("Rank 2")


def test_recovery_is_said_once_and_the_next_stall_is_news(pipeline: Pipeline, said: Said):
    pipeline.judge(stalled())
    said()
    for _ in range(3):
        pipeline.judge(moving())
    assert said() == "unstuck: the job moves again\n"
    pipeline.judge(stalled())
    assert "rank 2" in said()


def test_job_of_which_one_part_still_stands_does_not_move_again(pipeline: Pipeline, said: Said):
    pipeline.judge(stalled())
    said()
    half = job(4).change(1, stalled_for=2.0).snapshot()
    pipeline.judge(half)
    assert said() == ""


def test_fatal_verdict_silences_its_consequences(pipeline: Pipeline, tmp_path: Path, said: Said):
    pipeline.judge(crashed().snapshot())
    assert "rank 2" in said()
    later = crashed().fail(0, "RuntimeError", "Connection closed by peer", 1.0)
    pipeline.judge(later.end(0, 1, 0.5, "exception").end(1, -6, 0.4).snapshot())
    pipeline.judge(moving())

    assert said() == ""
    assert [path.name for path in tmp_path.glob("incident-*")] == ["incident-1"]


def test_stall_of_the_next_attempt_is_told(pipeline: Pipeline, said: Said):
    pipeline.judge(crashed().snapshot())
    said()
    pipeline.judge(stalled(attempt=1))
    assert "rank 2" in said()


def test_bundle_that_cannot_be_written_does_not_stop_the_report(tmp_path: Path, said: Said):
    (tmp_path / "file").touch()
    pipeline = Pipeline(tmp_path / "file", COMMAND, "host0")
    pipeline.judge(stalled())
    text = said()
    assert text.count("could not store the incident") == 1
    assert text.count("could not write the ledger: not a directory") == 1
    assert "rank 2" in text
    assert "incident-1" not in text


def test_unobserved_rank_is_mentioned_once(pipeline: Pipeline, said: Said):
    snapshot = job(4).change(1, unobserved="ImportError: x").snapshot()
    for _ in range(3):
        pipeline.judge(snapshot)
    assert said().count("unstuck: rank 1 is unobserved: ImportError: x\n") == 1


def test_what_diagnosis_wants_to_see_is_asked_for(pipeline: Pipeline):
    scene = one_sleeps().change(2, stack=(), stack_age=None, recorder_age=None)
    asked = pipeline.judge(scene.snapshot())
    assert (EvidenceKind.STACK, (2,)) in [(request.kind, request.ranks) for request in asked]


def test_hub_process_serves_the_socket_it_was_given(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        hub = subprocess.Popen(
            [sys.executable, "-m", "unstuck.pipeline", "--listener", str(listener.fileno()),
             "--run", str(tmp_path), "--host", "host0", "--command", "torchrun 'a b.py'"],
            env={**os.environ, "UNSTUCK_TOKEN": "t"},
            pass_fds=(listener.fileno(),),
        )  # fmt: skip
        try:
            with socket.create_connection(listener.getsockname(), timeout=20) as agent:
                agent.settimeout(20)
                assert b"challenge" in agent.recv(1000)
            os.kill(hub.pid, 2)
            assert hub.poll() is None
        finally:
            hub.kill()
            hub.wait()
