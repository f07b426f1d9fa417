"""How long is too long is learned from the job."""

import pytest

from scenes import Scene, job, user
from unstuck.diagnose.patience import LONG_WORK, patience
from unstuck.diagnose.verdict import diagnose
from unstuck.model.rank import CodeLine, Pace


@pytest.mark.parametrize(
    ("pace", "seconds"),
    [(Pace(9, 1.0, 5.0), 20.0), (Pace(10, 0.1, 0.2), 3.0), (Pace(500, 2.0, 4.0), 12.0)],
)
def test_three_times_the_longest_gap_with_a_floor_and_a_start_up(
    pace: Pace, seconds: float
) -> None:
    scene = job(2).change(0, pace=pace).change(1, pace=Pace())
    assert patience(scene.snapshot()) == seconds


def test_the_pace_of_a_dead_rank_no_longer_counts() -> None:
    scene = job(2).change(1, pace=Pace(500, 2.0, 50.0)).end(1, 0, 5.0, "exit")
    assert patience(scene.snapshot()) == 3.0


def waiting_for_rank_2(stalled: float, *stack: CodeLine) -> Scene:
    scene = job(4)
    for rank in (0, 1, 3):
        scene.enter(rank, stalled=stalled - 1)
    scene.sleep(2, stalled, stack=stack)
    return scene.process(2, waits_in="", cpu=1.0, state="R")


def test_a_rank_that_saves_a_checkpoint_is_given_time() -> None:
    saving = (CodeLine("lib/torch/serialization.py", 940, "_save"), user("torch.save(state, f)"))
    assert diagnose(waiting_for_rank_2(12, *saving).snapshot()).verdict is None

    verdict = diagnose(waiting_for_rank_2(LONG_WORK + 2, *saving).snapshot()).verdict
    assert verdict is not None
    assert [culprit.rank for culprit in verdict.culprits] == [2]


def test_a_deadline_of_the_users_own_wins() -> None:
    working = user("batch = next(it)")
    early = waiting_for_rank_2(12, working).change(2, sections=("load",), section_left=5.0)
    assert diagnose(early.snapshot()).verdict is None

    late = waiting_for_rank_2(2.5, working).change(2, sections=("load",), section_left=-0.5)
    verdict = diagnose(late.snapshot()).verdict
    assert verdict is not None
    assert verdict.culprits[0].doing.endswith("in section load, 0.5 s over its time")
