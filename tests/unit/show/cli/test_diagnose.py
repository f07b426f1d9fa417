"""`unstuck diagnose` says the same again, and tells when it does not."""

import json
from pathlib import Path

import msgspec
import pytest

from unstuck.collect import bundle
from unstuck.model.rank import GroupProgress, Phase, Process, ProcessState, RankState
from unstuck.model.snapshot import NodeState, Snapshot
from unstuck.model.verdict import Cause, Confidence, Culprit, Verdict
from unstuck.show.cli.main import main

Capture = pytest.CaptureFixture[str]


def state(rank: int, process_state: str) -> RankState:
    stopped = process_state == "T"
    group = GroupProgress("0", (0, 1), enqueued=6 if stopped else 7, completed=6)
    return RankState(
        rank=rank,
        host="node7",
        process=Process(pid=4710 + rank, state=ProcessState(process_state)),
        world_size=2,
        phase=Phase.RUN,
        beat_age=60.0 if stopped else 0.1,
        stalled_for=60.0,
        in_flight=not stopped,
        groups=(group,),
        recorder_age=1.0,
        stack_age=1.0,
    )


def job(*ranks: RankState) -> Snapshot:
    node = NodeState("node7-100", "node7")
    return Snapshot(taken_at=1794745801.5, nodes=(node,), ranks=ranks, world_size=2)


STOPPED = job(state(0, "S"), state(1, "T"))
STORED = Verdict(
    cause=Cause.PROCESS_STOPPED,
    confidence=Confidence.CERTAIN,
    culprits=(Culprit(rank=1, host="node7", doing="is stopped", pid=4711),),
    victims=(0,),
    since="2026-11-15T12:29:27+00:00",
)


def test_block_names_the_stopped_rank_and_exits_with_1(tmp_path: Path, capsys: Capture) -> None:
    path = bundle.write(tmp_path, STOPPED, STORED, about={})
    assert main(["diagnose", str(path)]) == 1

    captured = capsys.readouterr()
    assert "process-stopped" in captured.out
    assert "kill -CONT 4711" in captured.out
    assert str(path)[:40] in captured.out.replace("\n           ", "")
    assert captured.err == ""


def test_json_is_the_verdict_file_with_advice(tmp_path: Path, capsys: Capture) -> None:
    path = bundle.write(tmp_path, STOPPED, STORED, about={})
    assert main(["diagnose", "--json", str(path)]) == 1

    plain = json.loads(capsys.readouterr().out)
    assert plain["schema"] == "unstuck.verdict/1"
    assert plain["verdict"]["cause"] == "process-stopped"
    assert plain["verdict"]["do"]


def test_healthy_snapshot_exits_with_0(tmp_path: Path, capsys: Capture) -> None:
    path = bundle.write(tmp_path, Snapshot(taken_at=1794745801.5), None, about={})
    assert main(["diagnose", str(path)]) == 0
    assert capsys.readouterr().out == "nothing is wrong in this snapshot\n"


def test_verdict_that_changed_is_said_in_one_line(tmp_path: Path, capsys: Capture) -> None:
    other = msgspec.structs.replace(STORED, cause=Cause.UNKNOWN)
    path = bundle.write(tmp_path, STOPPED, other, about={})
    assert main(["diagnose", str(path)]) == 1

    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "differs from the stored one (unknown, rank 1)" in err


def test_bad_input_exits_with_2_and_says_what_to_type(tmp_path: Path, capsys: Capture) -> None:
    assert main(["diagnose", str(tmp_path / "typo")]) == 2
    assert capsys.readouterr().err.startswith("unstuck: nothing is at ")
