"""Snapshots in, reports out: once per stall, not about consequences, whatever the disk does."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from clocks import FakeClock
from scenes import Scene, job, one_sleeps
from unstuck.act.defaults import policy
from unstuck.act.instructions import Instructions
from unstuck.collect import bundle, timeouts_file
from unstuck.model.rank import Pace, Tempo
from unstuck.model.requests import EvidenceKind
from unstuck.model.snapshot import Snapshot
from unstuck.pipelines.live import Pipeline

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


def uneven(slow: bool = True) -> Snapshot:
    """A moving job whose rank 2 takes three times as long as the others, or as long as they."""
    scene = job(4)
    for rank in range(4):
        own = 0.29 if slow and rank == 2 else 0.1
        tempo = Tempo(steps=40, step=0.3, own=own, usual_own=0.1, changed_for=12.0)
        scene.change(rank, tempo=tempo)
    return scene.snapshot()


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


@pytest.mark.parametrize(
    "leaving",
    [job(4).node("host0", stopping=True), job(4).change(1, phase="exit")],
    ids=["ended by its user", "a rank leaves"],
)
def test_ranks_that_leave_are_not_a_job_that_moves(pipeline: Pipeline, said: Said, leaving: Scene):
    pipeline.judge(stalled())
    said()
    for _ in range(3):
        pipeline.judge(leaving.snapshot())
    assert "moves again" not in said()


def test_slow_job_is_told_once_and_so_is_its_end(pipeline: Pipeline, said: Said):
    for _ in range(3):
        pipeline.judge(uneven())
    assert said().count("unstuck: straggler") == 1
    pipeline.judge(moving())
    assert said() == ""
    for _ in range(3):
        pipeline.judge(uneven(slow=False))
    assert said() == "unstuck: rank 2 is as fast as the others again\n"
    pipeline.judge(uneven())
    assert "unstuck: straggler" in said()


def test_stall_of_a_slow_job_is_told_and_so_is_that_it_moves_again(pipeline: Pipeline, said: Said):
    pipeline.judge(uneven())
    said()
    pipeline.judge(stalled())
    assert "unstuck: busy-elsewhere" in said()
    for _ in range(3):
        pipeline.judge(uneven())
    assert said() == "unstuck: the job moves again\n"
    pipeline.judge(uneven(slow=False))
    assert said() == "unstuck: rank 2 is as fast as the others again\n"


def test_slowness_ends_with_its_attempt_without_a_word(pipeline: Pipeline, said: Said):
    pipeline.judge(uneven())
    said()
    pipeline.judge(msgspec.structs.replace(moving(), attempt=1))
    pipeline.judge(msgspec.structs.replace(uneven(slow=False), attempt=1))
    assert said() == ""


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


def test_rank_that_was_started_again_by_itself_may_be_lost_again(pipeline: Pipeline, said: Said):
    pipeline.judge(crashed().snapshot())
    assert "killed by SIGKILL" in said()
    pipeline.judge(stalled())
    assert said() == "", "as long as the job has not moved, this is a consequence"
    pipeline.judge(moving())
    pipeline.judge(stalled())
    assert "rank 2" in said()
    pipeline.judge(moving())
    pipeline.judge(crashed().snapshot())
    assert "killed by SIGKILL" in said()


def node_lost() -> Scene:
    scene = job(4, per_host=2)
    return scene.enter(0, stalled=5).enter(1, stalled=5).node("host1", silent_for=4.0)


def test_lost_node_that_comes_back_corrects_the_verdict(
    pipeline: Pipeline, tmp_path: Path, said: Said
):
    pipeline.judge(node_lost().snapshot())
    assert "node-failure" in said()
    back = node_lost().node("host1", silent_for=0.1, cut_off_for=6.0)
    for _ in range(3):
        pipeline.judge(back.snapshot())
    text = said()
    assert text.count("network-partition") == 1
    assert "the network was cut, no node failed" in " ".join(text.split())
    assert [path.name for path in sorted(tmp_path.glob("incident-*"))] == [
        "incident-1",
        "incident-2",
    ]

    moving = job(4, per_host=2).node("host1", cut_off_for=6.0).snapshot()
    for _ in range(3):
        pipeline.judge(moving)
    assert said() == "unstuck: the job moves again\n"
    pipeline.judge(node_lost().snapshot())
    assert "node-failure" in said()


def test_cut_is_explained_also_when_the_job_moves_before_the_lost_node_has_told_its_story(
    pipeline: Pipeline, said: Said
):
    moving = job(4, per_host=2).snapshot()
    back = job(4, per_host=2).node("host1", cut_off_for=6.0).snapshot()
    for _ in range(2):
        pipeline.judge(node_lost().snapshot())
        assert "node-failure" in said()
        pipeline.judge(moving)
        assert said() == "unstuck: the job moves again\n"
        for _ in range(3):
            pipeline.judge(back)
        text = said()
        assert text.count("unstuck: network-partition") == 1
        assert "moves again" not in text


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
    for later in range(5):
        pipeline.judge(msgspec.structs.replace(snapshot, taken_at=snapshot.taken_at + later))
    assert said().count("unstuck: rank 1 is unobserved: ImportError: x\n") == 1


def test_what_is_true_of_several_ranks_is_said_in_one_line(pipeline: Pipeline, said: Said):
    scene = job(4)
    for rank in range(3):
        scene = scene.change(rank, unobserved="torch 2.3.0 does not record gloo collectives")
    snapshot = scene.snapshot()
    for later in range(5):
        pipeline.judge(msgspec.structs.replace(snapshot, taken_at=snapshot.taken_at + later))
    line = "ranks 0-2 are unobserved: torch 2.3.0 does not record gloo collectives\n"
    text = said()
    assert (text.count(line), text.count("unobserved")) == (1, 1)


def test_rank_whose_probe_is_still_starting_is_not_mentioned(pipeline: Pipeline, said: Said):
    scene = job(4).change(1, unobserved="its page is empty")
    pipeline.judge(scene.snapshot())
    pipeline.judge(scene.change(1, unobserved="").snapshot())
    later = scene.snapshot()
    pipeline.judge(msgspec.structs.replace(later, taken_at=later.taken_at + 9))
    assert "unobserved" not in said()


def test_what_diagnosis_wants_to_see_is_asked_for(pipeline: Pipeline):
    scene = one_sleeps().change(2, stack=(), stack_age=None, recorder_age=None)
    asked = pipeline.judge(scene.snapshot())
    assert (EvidenceKind.STACK, (2,)) in [(request.kind, request.ranks) for request in asked]


def test_hub_process_serves_the_socket_it_was_given(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        hub = subprocess.Popen(
            [sys.executable, "-m", "unstuck.pipelines.live", "--listener", str(listener.fileno()),
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


def test_a_paused_job_is_left_in_peace_until_the_pause_ends(tmp_path: Path, said: Said):
    snapshot, clock = stalled(), FakeClock()
    clock.skipped = snapshot.taken_at - time.time()
    pipeline = Pipeline(tmp_path, COMMAND, "host0", clock=clock)
    answer = pipeline.control({"do": "pause", "for": 60})
    assert answer["controls"]["paused_left"] == pytest.approx(60.0, abs=1)
    assert "paused for 60 s" in said()
    pipeline.judge(snapshot)
    assert said() == ""
    assert bundle.newest(tmp_path) is None

    pipeline.judge(msgspec.structs.replace(snapshot, taken_at=snapshot.taken_at + 61))
    text = said()
    assert text.startswith("unstuck: the pause has ended: stalls are judged again\n")
    assert "rank 2" in text


def test_an_incident_keeps_the_patience_that_was_asked_for(
    pipeline: Pipeline, tmp_path: Path, said: Said
):
    pipeline.control({"do": "set", "patience": 4})
    pipeline.judge(stalled())
    incident = bundle.read(tmp_path)
    assert incident.snapshot.controls.patience == 4.0
    assert "ctl" in (tmp_path / "ledger.jsonl").read_text()


def test_a_message_that_makes_no_sense_is_answered_and_changes_nothing(
    pipeline: Pipeline, said: Said
):
    assert "error" in pipeline.control({"do": "dance"})
    assert pipeline.control({"do": "status"})["controls"] == {
        "paused_left": 0.0,
        "resumed_for": None,
        "patience": 0.0,
        "sections": {},
    }
    assert said() == ""


def test_the_timeouts_of_the_ranks_are_kept_and_written_anew_when_they_change(
    pipeline: Pipeline, tmp_path: Path, said: Said
):
    scene = job(2)
    for rank in (0, 1):
        scene.progress(rank, "0", timeout=77.0)
    pipeline.judge(scene.snapshot())
    first = timeouts_file.read(tmp_path)
    assert first is not None
    assert first.knobs[0].seconds == 77.0

    for rank in (0, 1):
        scene.progress(rank, "0", timeout=60.0)
    later = msgspec.structs.replace(scene.snapshot(), taken_at=scene.snapshot().taken_at + 30)
    pipeline.judge(later)
    assert timeouts_file.read(tmp_path) != first


def acting(tmp_path: Path, *on: str) -> Pipeline:
    pipeline = Pipeline(tmp_path, COMMAND, "host0")
    pipeline.act_by(Instructions("run", policy(recover=True, on=on), max_restarts=3))
    return pipeline


def acts(run: Path) -> list[str]:
    return [json.loads(line)["act"] for line in (run / "ledger.jsonl").read_text().splitlines()]


def stopped() -> Scene:
    scene = job(4)
    for rank in (0, 1, 3):
        scene.enter(rank)
    return scene.stop(2)


def test_ranks_that_were_ended_on_purpose_are_not_accused(tmp_path: Path, said: Said):
    pipeline = acting(tmp_path)
    pipeline.judge(stopped().snapshot())
    assert "process-stopped" in said()
    ended = stopped()
    for rank in range(4):
        ended.end(rank, -9, 0.3)
    for _ in range(3):
        pipeline.judge(ended.snapshot())
    assert "process-crash" not in said()
    assert len(list(tmp_path.glob("incident-*"))) == 1
    assert acts(tmp_path) == ["dump", "report", "notify", "restart"]


def test_job_that_moves_again_is_not_touched(tmp_path: Path, said: Said):
    pipeline = acting(tmp_path, "busy-elsewhere=notify,wait:30m,restart")
    pipeline.judge(stalled())
    pipeline.judge(moving())
    assert "the job moves again" in said()
    assert acts(tmp_path) == ["dump", "report", "notify", "wait", "recovered"]


def test_ranks_that_are_freed_to_save_are_not_a_job_that_moves(tmp_path: Path, said: Said):
    pipeline = acting(tmp_path)
    pipeline.judge(stopped().change(0, hook="ready", hook_seconds=20.0).snapshot())
    assert acts(tmp_path)[-1] == "checkpoint"
    said()
    freed = job(4).change(0, hook="running", hook_seconds=20.0)
    for _ in range(3):
        pipeline.judge(freed.snapshot())
    assert "moves again" not in said()


def test_an_agent_that_was_restarted_does_not_end_the_stall(pipeline: Pipeline, said: Said):
    """To a new agent the stall begins when it first looks: that is no sign of life."""
    pipeline.judge(stalled())
    said()
    anew = stalled()
    ranks = tuple(msgspec.structs.replace(one, stalled_for=0.1, pace=Pace()) for one in anew.ranks)
    pipeline.judge(msgspec.structs.replace(anew, ranks=ranks))
    pipeline.judge(stalled())
    assert said() == ""
