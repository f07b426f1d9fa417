"""A job in which nobody waits for anybody: told after two minutes without any processor time."""

from typing import Any

import msgspec
import pytest

from scenes import Scene, culprits, job, silent, user, verdict_of
from unstuck.diagnose.diagnose import diagnose
from unstuck.model.life import Life
from unstuck.model.neighbour import HostWait, Neighbour
from unstuck.model.rank import CodeLine, LongPlace, Pace
from unstuck.model.requests import EvidenceKind
from unstuck.model.verdict import Cause, Confidence

STILL = HostWait(cpu=0.0)
READS = {"state": "S", "waits_in": "pipe_read", "cpu": 0.0}


def reading(size: int = 4, seconds: float = 121.0, **fields: Any) -> Scene:
    """All ranks wait for data from the same place, outside any collective."""
    scene = job(size)
    for rank in range(size):
        stack = (user("batch = storage.read()", 31, "load"),)
        told: dict[str, Any] = {"stack": stack, "stack_age": 5.0, "waiting": STILL}
        scene.process(rank, **READS).change(rank, stalled_for=seconds, **(told | fields))
    return scene


def test_nobody_is_blamed_when_all_wait_for_the_same_storage() -> None:
    verdict = verdict_of(reading())
    assert (verdict.cause, verdict.confidence) == (Cause.BUSY_ELSEWHERE, Confidence.POSSIBLE)
    assert (verdict.culprits, verdict.victims) == ((), (0, 1, 2, 3))
    assert verdict.summary == (
        "None of the 4 ranks makes progress, and no collective is in flight: "
        "each waits for data from a pipe at train.py:31 (load)."
    )


def test_two_minutes_are_needed_on_every_rank() -> None:
    assert silent(reading(seconds=119.0))
    assert silent(reading().change(3, stalled_for=30.0))


@pytest.mark.parametrize(
    "works",
    [
        HostWait(cpu=0.9),
        HostWait(cpu=0.0, children=(Neighbour(7, "unpack", "R", cpu=1.0),)),
        HostWait(),
    ],
    ids=["another thread", "a child", "not known"],
)
def test_a_job_in_which_something_works_is_well(works: HostWait) -> None:
    assert silent(reading().change(2, waiting=works))


def test_a_long_computation_on_a_device_needs_no_processor() -> None:
    assert silent(reading().change(1, stack=(user("loss.item()"),)))


def test_a_person_at_a_debugger_may_think_for_long() -> None:
    assert silent(reading(1).process(0, waits_in="n_tty_read"))


def test_a_section_with_a_deadline_is_waited_for() -> None:
    assert silent(reading().change(0, sections=("upload",), section_left=60.0))


def test_a_place_that_is_known_to_be_long_gets_three_times_as_long() -> None:
    pace = Pace(gaps=100, typical=0.1, longest=0.2, places=(LongPlace("f:upload", 2, 90.0),))
    scene = reading(seconds=200.0, places=("f:upload",)).change(0, pace=pace)
    assert silent(scene)
    for rank in range(4):
        scene.change(rank, stalled_for=271.0)
    assert verdict_of(scene).cause is Cause.BUSY_ELSEWHERE


def test_a_rank_that_never_ends_is_named_when_all_others_have() -> None:
    scene = reading().change(2, left_for=130.0)
    for rank in (0, 1, 3):
        scene.end(rank, 0, 125.0, phase="exit").change(rank, left_for=126.0)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.BUSY_ELSEWHERE, [2])
    assert verdict.victims == ()
    assert "all other ranks have ended without an error" in verdict.because


def test_stacks_are_asked_for_before_anything_is_said() -> None:
    scene = reading(seconds=62.0, stack_age=None, waiting=HostWait())
    (request,) = diagnose(scene.snapshot()).requests
    assert (request.kind, request.ranks) == (EvidenceKind.STACK, (0, 1, 2, 3))
    assert diagnose(reading(seconds=58.0, stack_age=None).snapshot()).requests == ()


def test_a_counter_of_torch_that_stays_behind_is_no_operation() -> None:
    scene = reading().change(1, in_flight=True, recorder_age=5.0)
    assert verdict_of(scene).victims == (0, 1, 2, 3)
    assert silent(scene.change(1, recorder_age=None))


def test_ranks_that_differ_are_told_apart() -> None:
    scene = reading(3)
    process = msgspec.structs.replace(scene.states[2].process, waits_in="hrtimer_nanosleep")
    summary = verdict_of(scene.change(2, process=process)).summary
    assert "ranks 0,1: waits for data" in summary
    assert "rank 2: is asleep at train.py:31 (load)" in summary


@pytest.mark.parametrize(("quiet", "judged"), [(59.0, True), (20.0, False)])
def test_the_second_minute_is_one_without_any_sign_of_life(quiet: float, judged: bool) -> None:
    life = Life(looked_for=60.0, quiet_for=quiet)
    assert silent(reading(life=life)) is not judged


def test_a_job_in_which_one_rank_waits_for_requests_is_given_five_minutes() -> None:
    accept = CodeLine("/usr/lib/python3.11/socket.py", 294, "accept")
    stack = (accept, user("connection, _ = server.accept()"))
    assert silent(reading(seconds=299.0).change(0, stack=stack))
    assert not silent(reading(seconds=301.0).change(0, stack=stack))
