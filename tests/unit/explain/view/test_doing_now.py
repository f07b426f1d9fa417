"""What each rank does now, as a colour can show it."""

import pytest

from scenes import Scene, job, one_sleeps
from unstuck.diagnose.job.standing import survey
from unstuck.explain.view.doing_now import BY_LETTER, LETTERS, State, state_of


def now(scene: Scene, rank: int) -> State:
    return state_of(survey(scene.snapshot()), rank)


def test_every_state_has_a_letter_of_its_own():
    assert len(BY_LETTER) == len(LETTERS) == len(State)


def test_a_rank_at_work_computes_and_one_that_naps_shortly_still_does():
    scene = job()

    assert now(scene, 0) is State.COMPUTING
    assert now(scene.sleep(1, stalled=0.2), 1) is State.COMPUTING


def test_ranks_that_wait_are_told_from_the_one_that_sleeps():
    scene = one_sleeps()

    assert [now(scene, rank) for rank in range(4)] == [
        State.COLLECTIVE,
        State.COLLECTIVE,
        State.BLOCKED,
        State.COLLECTIVE,
    ]


@pytest.mark.parametrize(
    ("code", "phase", "expected"),
    [(0, "exit", State.DONE), (None, "exit", State.DONE), (-9, "run", State.GONE)],
)
def test_who_left_in_order_has_not_died(code: int | None, phase: str, expected: State):
    assert now(job().end(1, code, 3.0, phase), 1) is expected


def test_who_cannot_be_seen_says_why_not():
    scene = job(6, per_host=2)
    scene.node("host1", silent_for=30.0).stop(0)
    del scene.states[5]

    assert now(scene, 0) is State.STOPPED
    assert now(scene, 2) is State.SILENT
    assert now(scene, 5) is State.MISSING
    assert now(scene.change(4, unobserved="no probe"), 4) is State.UNSEEN
    assert now(scene.change(1, sections=("load",)), 1) is State.SECTION
