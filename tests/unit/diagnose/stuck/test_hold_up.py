"""A living rank keeps others waiting: a notice at once, a verdict by proof or by silence."""

import msgspec
import pytest

from scenes import Scene, one_sleeps, user, verdict_of, watched
from unstuck.diagnose.diagnose import diagnose
from unstuck.model.controls import Controls
from unstuck.model.diagnosis import Diagnosis
from unstuck.model.life import Sign
from unstuck.model.neighbour import HostWait, Neighbour
from unstuck.model.rank import CodeLine, LongPlace, Pace
from unstuck.model.verdict import Basis, Cause

QUEUE = CodeLine("/usr/lib/python3.11/queue.py", 171, "get", "self.not_empty.wait()")


def judged(scene: Scene, patience: float = 0.0) -> Diagnosis:
    told = msgspec.structs.replace(scene.snapshot(), controls=Controls(patience=patience))
    return diagnose(told)


def late(quiet: float, *signs: Sign, seconds: float = 11.0) -> Scene:
    """Rank 2 sleeps while the others wait for it."""
    return watched(one_sleeps().sleep(2, stalled=seconds), 2, quiet, *signs)


def locked(quiet: float, elsewhere: tuple[CodeLine, ...] | None) -> Scene:
    """Rank 2 waits for a lock."""
    scene = late(quiet).process(2, waits_in="futex_wait_queue")
    return scene.change(2, stack=(user("lock.acquire()"),), elsewhere=elsewhere)


def test_a_rank_that_may_still_arrive_is_noticed_and_not_judged() -> None:
    found = judged(late(8.0))
    assert found.verdict is None
    (notice,) = found.notices
    assert [one.rank for one in notice.ranks] == [2]
    assert notice.waiting == (0, 1, 3)
    assert (notice.seconds, notice.judged_in, notice.times_out_in) == (10.0, 52.0, None)


def test_nothing_is_noticed_while_the_wait_is_a_usual_one() -> None:
    assert judged(late(1.0, seconds=2.0)).notices == ()


def test_a_minute_without_any_sign_of_life_is_judged() -> None:
    found = judged(late(60.0))
    assert found.notices == ()
    assert found.verdict is not None
    assert (found.verdict.cause, found.verdict.basis) == (Cause.BUSY_ELSEWHERE, Basis.TIME)
    assert found.verdict.because.endswith(
        "no sign of life for 60 s: no CPU time, no bytes, no new line of code"
    )


@pytest.mark.parametrize("sign", list(Sign))
def test_one_that_shows_any_sign_of_life_is_never_judged(sign: Sign) -> None:
    found = judged(late(0.0, sign, seconds=900.0))
    assert found.verdict is None
    assert found.notices[0].judged_in is None


def test_a_job_that_has_shown_a_longer_hold_up_is_given_three_times_as_long() -> None:
    scene = late(100.0)
    scene.change(0, pace=Pace(gaps=100, places=(LongPlace("train.py:70", 3, 40.0),)))
    assert judged(scene).verdict is None
    watched(scene, 2, 121.0)
    assert judged(scene).verdict is not None


def test_who_asked_for_a_patience_gets_a_verdict_after_it_whatever_is_alive() -> None:
    found = judged(late(0.0, Sign.CPU), patience=10.0)
    assert found.verdict is not None
    assert found.verdict.basis is Basis.ASKED
    assert judged(late(0.0, Sign.CPU), patience=11.0).verdict is None


def test_one_whose_signs_of_life_cannot_be_read_is_judged_by_time() -> None:
    assert judged(late(0.0, seconds=61.0).change(2, life=None)).verdict is None
    scene = one_sleeps()
    for rank in (0, 1, 3):
        scene.change(rank, stalled_for=63.0)
    scene.sleep(2, stalled=63.0)
    scene.shows_life = True
    assert judged(scene).verdict is not None


def test_where_signs_of_life_were_never_collected_waiting_decides() -> None:
    verdict = verdict_of(one_sleeps())
    assert (verdict.cause, verdict.basis) == (Cause.BUSY_ELSEWHERE, Basis.TIME)


# --- proof


@pytest.mark.parametrize(
    ("elsewhere", "proof"),
    [
        ((), "no other thread of its process is left that could release it"),
        (
            (user("with log_lock:"),),
            "all threads of its process wait for locks, so none of them can release one",
        ),
    ],
)
def test_a_lock_that_nobody_can_release_is_a_proof(
    elsewhere: tuple[CodeLine, ...], proof: str
) -> None:
    found = judged(locked(3.0, elsewhere))
    assert found.verdict is not None
    assert (found.verdict.cause, found.verdict.basis) == (Cause.HOST_DEADLOCK, Basis.PROOF)
    assert found.verdict.because.endswith(f"it cannot go on by itself: {proof}")


@pytest.mark.parametrize(
    ("elsewhere", "text", "proven"),
    [
        ((), "self.not_empty.wait()", True),
        ((), "self.not_empty.wait(remaining)", False),
        ((user("batches.put(read())"),), "self.not_empty.wait()", False),
    ],
    ids=["its producer died", "the wait has a limit", "its producer works"],
)
def test_an_empty_queue_is_a_proof_where_nobody_can_fill_it(
    elsewhere: tuple[CodeLine, ...], text: str, proven: bool
) -> None:
    scene = late(3.0).process(2, waits_in="futex_wait_queue")
    get = msgspec.structs.replace(QUEUE, text=text)
    scene.change(2, stack=(get, user("batch = batches.get()")), elsewhere=elsewhere)
    assert (judged(scene).verdict is not None) is proven


@pytest.mark.parametrize(
    "elsewhere",
    [None, (user("upload(part)"),), (user("lock.acquire()"), user("event.wait(1)"))],
    ids=["threads not known", "one works", "one waits with a limit"],
)
def test_a_lock_that_a_thread_may_release_is_none(elsewhere: tuple[CodeLine, ...] | None) -> None:
    assert judged(locked(8.0, elsewhere)).verdict is None


def test_a_lock_that_another_process_may_release_is_none() -> None:
    scene = locked(8.0, ()).change(2, waiting=HostWait(children=(Neighbour(7, "worker"),)))
    assert judged(scene).verdict is None


@pytest.mark.parametrize(("state", "proven"), [("T", True), ("S", False)])
def test_a_file_lock_is_a_proof_where_its_holder_is_stopped(state: str, proven: bool) -> None:
    scene = late(3.0).process(2, waits_in="locks_lock_inode_wait")
    scene.change(2, stack=(user("fcntl.flock(file)"),))
    scene.change(2, waiting=HostWait("lock", "/data/x", (Neighbour(9, "rsync", state),)))
    assert (judged(scene).verdict is not None) is proven


@pytest.mark.parametrize(("quiet", "proven"), [(1.0, True), (0.0, False)])
def test_a_held_gil_is_a_proof_where_nothing_runs(quiet: float, proven: bool) -> None:
    scene = late(quiet).change(2, gil_held=True, beat_age=9.0)
    assert (judged(scene).verdict is not None) is proven


def test_a_proof_is_judged_beside_a_notice_of_another_rank() -> None:
    scene = late(8.0).stop(3)
    for rank in (0, 1):
        scene.change(rank, stalled_for=10.0)
    found = judged(scene)
    assert found.verdict is not None
    assert [one.rank for one in found.verdict.culprits] == [3]
    assert [one.rank for notice in found.notices for one in notice.ranks] == [2]


# --- waiting by design, and the timeout


def test_who_waits_for_input_is_given_five_minutes() -> None:
    scene = late(299.0, seconds=310.0).process(2, waits_in="futex_wait_queue")
    scene.change(2, stack=(QUEUE, user("batch = batches.get()")))
    found = judged(scene)
    assert found.verdict is None
    assert found.notices[0].ranks[0].doing == "waits for an item of a queue"
    watched(scene, 2, 300.0)
    assert judged(scene).verdict is not None


def test_half_of_the_timeout_is_warned_of() -> None:
    scene = late(0.0, Sign.CPU, seconds=20.0)
    for rank in (0, 1, 3):
        scene.progress(rank, "0", timeout=18.0)
    (notice,) = judged(scene).notices
    assert notice.times_out_in == 8.0
