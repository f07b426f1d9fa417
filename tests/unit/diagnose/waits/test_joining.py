"""Who keeps the others in `init_process_group`, and what it does instead."""

import msgspec
import pytest

from scenes import NOW, Scene, culprits, job, silent, user, verdict_of
from unstuck.diagnose.diagnose import diagnose
from unstuck.model.rank import CodeLine, Process, ProcessState
from unstuck.model.requests import EvidenceKind, EvidenceRequest
from unstuck.model.snapshot import NodeState, Snapshot
from unstuck.model.verdict import Cause, Confidence

USUAL = 4.0


def joining(waited: float, size: int = 4, late: int = 2) -> Scene:
    """All but one rank came to init_process_group 4 s after their start and wait there."""
    scene = job(size)
    for rank in range(size):
        scene.change(rank, groups=(), phase="init", stalled_for=waited, age=USUAL + waited)
    return scene.change(late, phase="start", stalled_for=waited + 3.0)


def test_a_rank_that_sleeps_before_it_joins_is_named_once_it_is_late() -> None:
    assert silent(joining(4.0).sleep(2, 7.0, phase="start", groups=()))
    assert silent(joining(5.5).sleep(2, 6.5, phase="start", groups=(), age=7.5))

    verdict = verdict_of(joining(5.5).sleep(2, 7.5, phase="start", groups=(), age=9.5))
    assert (verdict.cause, culprits(verdict)) == (Cause.NEVER_JOINED, [2])
    assert verdict.victims == (0, 1, 3)
    assert verdict.culprits[0].doing == "has not called init_process_group: it is asleep"
    assert verdict.culprits[0].line == 31
    assert verdict.chain == ("ranks 0,1,3 wait in init_process_group for rank 2",)


def test_a_rank_that_works_before_it_joins_gets_more_time() -> None:
    assert silent(joining(19.0))
    verdict = verdict_of(joining(21.0))
    assert (verdict.cause, culprits(verdict)) == (Cause.NEVER_JOINED, [2])
    assert Cause.BUSY_ELSEWHERE in [one.cause for one in verdict.alternatives]


def test_importing_on_a_slow_machine_is_no_alarm() -> None:
    importing = (CodeLine("<frozen importlib._bootstrap>", 241, "_call"), user("import torch"))
    assert silent(joining(40.0).change(2, stack=importing))
    assert silent(joining(40.0).change(2, phase="born", stack=()))
    named = verdict_of(joining(61.0).change(2, phase="born", stack=()))
    assert named.culprits[0].doing.startswith("has not imported torch yet")


def test_a_stack_that_was_taken_during_the_import_is_taken_again() -> None:
    importing = (CodeLine("<frozen importlib._bootstrap>", 241, "_call"), user("import torch"))
    scene = joining(10.0).change(2, stack=importing, stack_age=7.0)
    assert diagnose(scene.snapshot()).requests == (EvidenceRequest(EvidenceKind.STACK, (2,)),)
    assert diagnose(scene.change(2, stack_age=2.0).snapshot()).requests == ()


def test_where_all_ranks_start_slowly_a_late_one_gets_twice_as_long() -> None:
    scene = joining(10.0)
    for rank in (0, 1, 3):
        scene.change(rank, age=30.0)
    assert silent(scene.sleep(2, 15.0, phase="start", groups=(), age=30.0))
    assert not silent(scene.change(2, age=41.0))


def test_nobody_is_late_when_ranks_are_through_and_a_page_is_a_beat_behind() -> None:
    scene = joining(9.0).sleep(2, 12.0, phase="start", groups=(), age=13.0)
    assert not silent(scene)
    for rank in (1, 3):
        scene.change(rank, phase="run", stalled_for=0.0)
    assert silent(scene)


def test_a_stopped_rank_needs_no_patience() -> None:
    verdict = verdict_of(joining(2.5).stop(2, 2.4))
    assert (verdict.cause, culprits(verdict)) == (Cause.PROCESS_STOPPED, [2])


def test_a_rank_that_ended_without_joining_never_joined() -> None:
    verdict = verdict_of(joining(3.0).end(2, 0, 2.8, phase="exit"))
    assert (verdict.cause, verdict.confidence) == (Cause.NEVER_JOINED, Confidence.CERTAIN)
    assert culprits(verdict) == [2]


def test_the_deadline_of_a_section_wins() -> None:
    scene = joining(30.0).sleep(2, 33.0, phase="start", groups=(), age=34.0)
    assert silent(scene.change(2, sections=("download",), section_left=10.0))


def test_ranks_that_were_never_seen_are_named_after_a_minute() -> None:
    scene = job(2)
    scene.world_size = 4
    for rank in range(2):
        scene.change(rank, phase="init", groups=(), stalled_for=59.0)
    assert silent(scene)
    for rank in range(2):
        scene.change(rank, stalled_for=61.0)
    verdict = verdict_of(scene)
    assert (verdict.cause, verdict.confidence) == (Cause.NEVER_JOINED, Confidence.POSSIBLE)
    assert [(one.rank, one.host) for one in verdict.culprits] == [(2, ""), (3, "")]
    assert verdict.victims == (0, 1)


def test_nobody_is_blamed_when_all_are_in_init() -> None:
    scene = joining(61.0).change(2, phase="init", stalled_for=61.0)
    verdict = verdict_of(scene)
    assert (verdict.cause, verdict.culprits) == (Cause.NETWORK_MISCONFIGURATION, ())
    assert silent(scene.change(1, stalled_for=50.0))


@pytest.mark.parametrize(
    ("come", "cause"), [(1, Cause.NEVER_JOINED), (2, Cause.NETWORK_MISCONFIGURATION)]
)
def test_launchers_that_wait_at_the_rendezvous_are_seen(come: int, cause: Cause) -> None:
    def waiting(seconds: float) -> Snapshot:
        nodes = [
            NodeState(f"host{n}-1", f"host{n}", 0.4, nodes_wanted=2, empty_for=seconds)
            for n in range(come)
        ]
        return Snapshot(NOW, tuple(nodes))

    assert diagnose(waiting(55.0)).verdict is None
    verdict = diagnose(waiting(65.0)).verdict
    assert verdict is not None
    assert (verdict.cause, verdict.culprits) == (cause, ())
    assert f"{come} of 2 nodes have arrived" in verdict.summary


def test_nobody_is_blamed_when_some_do_not_come_out_of_init() -> None:
    scene = job(3).enter(0, stalled=21.0, loops=("train.py:14",))
    for rank in (1, 2):
        scene.change(rank, phase="init", groups=(), loops=(), stalled_for=23.0, stack_age=1.0)
    verdict = verdict_of(scene)
    assert (verdict.cause, verdict.culprits) == (Cause.NETWORK_MISCONFIGURATION, ())
    assert verdict.summary.startswith("Ranks 1,2 (")
    for rank in (1, 2):
        scene.change(rank, stalled_for=19.0)
    assert silent(scene)


def test_a_rank_that_is_there_twice_explains_one_that_is_not_there() -> None:
    scene = joining(5.0)
    scene.change(2, phase="init", stalled_for=5.0)
    second = msgspec.structs.replace(
        scene.states.pop(3), rank=2, process=Process(4711, ProcessState.SLEEPING)
    )
    whole = scene.snapshot()
    assert diagnose(whole).verdict is None
    verdict = diagnose(msgspec.structs.replace(whole, ranks=(*whole.ranks, second))).verdict
    assert verdict is not None
    assert (verdict.cause, culprits(verdict)) == (Cause.NEVER_JOINED, [3])
    assert verdict.confidence is Confidence.CERTAIN
    assert "two processes say that they are rank 2, and rank 3 never reported" in verdict.because
