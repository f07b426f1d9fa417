"""How long is too long is learned from the job."""

import pytest

from scenes import Scene, job, user
from unstuck.diagnose.diagnose import diagnose
from unstuck.diagnose.job.patience import patience
from unstuck.diagnose.thresholds import LONG_WORK
from unstuck.model.rank import CodeLine, LongPlace, Pace
from unstuck.model.verdict import Cause


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


def test_a_rank_that_waits_for_a_thread_which_saves_is_given_time() -> None:
    waits = (CodeLine("/lib/python3.11/concurrent/futures/_base.py", 451, "result"), user("x"))
    writes = (
        'Thread 0x01 (most recent call first):\n  File "lib/torch/serialization.py", line 9 in f'
    )
    scene = waiting_for_rank_2(12, *waits).change(2, threads=(writes,))
    assert diagnose(scene.snapshot()).verdict is None
    assert diagnose(scene.change(2, threads=()).snapshot()).verdict is not None


def test_a_rank_that_sleeps_for_its_storage_while_it_saves_is_given_time() -> None:
    saving = (user("time.sleep(0.09)"), CodeLine("lib/torch/serialization.py", 940, "_save"))
    sleeping = waiting_for_rank_2(12, *saving).process(2, waits_in="hrtimer_nanosleep", cpu=0.0)
    assert diagnose(sleeping.snapshot()).verdict is None
    assert diagnose(sleeping.change(2, stack=saving[:1]).snapshot()).verdict is not None


def test_a_deadline_of_the_users_own_wins() -> None:
    working = user("batch = next(it)")
    early = waiting_for_rank_2(12, working).change(2, sections=("load",), section_left=5.0)
    assert diagnose(early.snapshot()).verdict is None

    late = waiting_for_rank_2(2.5, working).change(2, sections=("load",), section_left=-0.5)
    verdict = diagnose(late.snapshot()).verdict
    assert verdict is not None
    assert verdict.culprits[0].doing.endswith("in section load, 500 ms past its deadline")


def test_the_first_steps_of_the_others_say_how_long_the_first_step_takes() -> None:
    scene = job(2).change(0, pace=Pace(first=25.0)).change(1, pace=Pace())
    assert patience(scene.snapshot()) == 75.0


def test_two_steps_may_always_pass() -> None:
    scene = job(2).change(0, pace=Pace(100, 0.1, 0.2, step=7.0))
    assert patience(scene.snapshot()) == 14.0


def paused_before(*places: LongPlace) -> Pace:
    return Pace(100, 0.1, 0.2, places=places)


def test_a_phase_that_was_long_before_may_be_long_again_there_and_only_there() -> None:
    known = paused_before(LongPlace("train.py:20", 1, 10.0), LongPlace("section save", 1, 10.0))
    for place in ("train.py:20", "section save"):
        early = waiting_for_rank_2(28.0, user("save()")).change(0, pace=known)
        assert diagnose(early.change(2, places=(place,)).snapshot()).verdict is None
        late = waiting_for_rank_2(32.0, user("save()")).change(0, pace=known)
        assert diagnose(late.change(2, places=(place,)).snapshot()).verdict is not None

    elsewhere = waiting_for_rank_2(4.2, user("load()", 31)).change(0, pace=known)
    verdict = diagnose(elsewhere.change(2, places=("train.py:31",)).snapshot()).verdict
    assert verdict is not None
    assert [culprit.rank for culprit in verdict.culprits] == [2]


def test_a_rank_that_works_through_many_lines_is_given_time() -> None:
    working = waiting_for_rank_2(12.0, user("evaluate()")).change(2, lines=9)
    assert diagnose(working.snapshot()).verdict is None
    assert diagnose(working.process(2, cpu=0.0, state="S").snapshot()).verdict is not None
    assert diagnose(working.change(2, lines=2).snapshot()).verdict is not None


def test_a_collective_that_takes_long_by_itself_is_known_by_the_last_to_come() -> None:
    scene = job(3)
    for rank, waited in enumerate((30.0, 4.0, 30.0)):
        scene.enter(rank, stalled=10.0).change(rank, pace=Pace(100, 0.1, 0.2, waited=waited))
    assert diagnose(scene.snapshot()).verdict is None
    verdict = diagnose(scene.change(1, pace=Pace(100, 0.1, 0.2)).snapshot()).verdict
    assert verdict is not None
    assert verdict.cause is Cause.TRANSPORT_STALL
