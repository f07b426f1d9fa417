"""The launch command of a host is killed, and its ranks are ended with it."""

from scenes import CLOSED, Scene, culprits, job, silent, verdict_of
from unstuck.diagnose.diagnose import diagnose
from unstuck.model.snapshot import NodeState, Snapshot
from unstuck.model.verdict import Cause


def killed(code: int = -9, ago: float = 1.0) -> Scene:
    """Of two hosts with two ranks each, the second has lost its launcher."""
    scene = job(4, per_host=2).node("host1", launcher_exit=code, launcher_gone_for=ago)
    for rank in (0, 1):
        scene.enter(rank, stalled=0.5).fail(rank, "RuntimeError", CLOSED, 0.6)
    return scene.end(2, -15, 0.8).end(3, -15, 0.8)


def test_a_killed_launcher_is_the_root_and_its_ranks_are_named() -> None:
    verdict = verdict_of(killed())
    assert (verdict.cause, culprits(verdict)) == (Cause.PROCESS_CRASH, [2, 3])
    assert verdict.victims == (0, 1)
    assert verdict.summary == (
        "The launcher on host1 was killed by SIGKILL, and its ranks 2,3 ended with it."
    )


def test_it_is_told_although_its_ranks_still_live() -> None:
    scene = job(4, per_host=2).node("host1", launcher_exit=-11, launcher_gone_for=0.5)
    assert "SIGSEGV" in verdict_of(scene).summary
    assert silent(scene.node("host1", launcher_gone_for=0.1))


def test_a_rank_that_died_before_its_launcher_is_the_root() -> None:
    assert culprits(verdict_of(killed().end(3, -11, 2.0))) == [3]


def test_a_launcher_that_ended_with_an_exit_code_ended_because_of_a_rank() -> None:
    scene = killed(1).end(3, 7, 1.5)
    assert culprits(verdict_of(scene)) == [3]


def test_a_launcher_that_the_user_stopped_is_no_incident() -> None:
    assert silent(killed().node("host1", stopping=True))


def test_a_command_without_ranks_is_no_training_job() -> None:
    node = NodeState("n", "host0", launcher_exit=-15, launcher_gone_for=1.0)
    assert diagnose(Snapshot(taken_at=0.0, nodes=(node,))).verdict is None
