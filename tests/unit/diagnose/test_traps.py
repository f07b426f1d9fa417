"""States that mislead: each looks like another fault than it is."""

from scenes import C10D, CLOSED, TIMED_OUT, culprits, job, one_sleeps, silent, user, verdict_of
from unstuck.diagnose.diagnose import diagnose
from unstuck.model.rank import CodeLine, PointToPoint
from unstuck.model.requests import EvidenceKind, EvidenceRequest
from unstuck.model.snapshot import NodeState
from unstuck.model.verdict import Cause


def test_a_root_that_completed_its_broadcast_early_is_no_link_in_the_chain() -> None:
    scene = job(5, {"0": (0, 1, 2, 3), "b": (0, 4)})
    for rank in range(4):
        scene.enter(rank, "0", "broadcast")
    scene.progress(0, "0", completed=41, pending=()).enter(0, "b").sleep(4)
    verdict = verdict_of(scene)
    assert verdict.cause is Cause.TRANSPORT_STALL
    assert verdict.victims == (0, 1, 2, 3)
    assert any("rank 4 is asleep" in item.text.lower() for item in verdict.evidence)


def test_ranks_at_several_numbers_of_one_group_all_wait_for_the_last() -> None:
    scene = job(3).enter(0).progress(0, "0", completed=41, pending=()).enter(0)
    scene.enter(1).sleep(2)
    verdict = verdict_of(scene)
    assert culprits(verdict) == [2]
    assert verdict.victims == (0, 1)


def test_a_receive_from_anybody_when_all_others_wait_is_a_circle() -> None:
    scene = job(2)
    scene.message(0, PointToPoint("recv", "0", -1, 1, age=10), call="recv")
    scene.message(1, PointToPoint("recv", "0", 0, 1, age=10), call="recv")
    scene.change(0, stack_age=0.5).change(1, stack_age=0.5)
    assert verdict_of(scene).cause is Cause.ORDER_INVERSION


def test_a_send_and_a_receive_with_other_tags_do_not_meet() -> None:
    scene = job(2)
    scene.message(0, PointToPoint("recv", "0", 1, 3, tag=1, age=10), call="recv")
    scene.message(1, PointToPoint("send", "0", 0, 3, tag=2, age=10), call="send")
    scene.change(0, stack_age=0.5).change(1, stack_age=0.5)
    assert verdict_of(scene).cause is Cause.COLLECTIVE_MISMATCH


def test_without_a_call_on_the_stack_a_receive_counts_before_an_unwaited_send() -> None:
    scene = job(3).sleep(0).sleep(2)
    unwaited = PointToPoint("send", "0", 2, 1, age=500.0)
    recv = PointToPoint("recv", "0", 0, 1, age=10.0)
    scene.message(1, unwaited, recv, call="recv")
    assert culprits(verdict_of(scene.change(1, stack=(user("work.wait()"),)))) == [0]


def test_a_blocking_receive_is_the_newest_one() -> None:
    scene = job(3).sleep(0).sleep(2)
    prefetched = PointToPoint("recv", "0", 2, 1, age=500.0)
    scene.message(1, prefetched, PointToPoint("recv", "0", 0, 1, age=10.0), call="recv")
    assert culprits(verdict_of(scene)) == [0]


def test_a_blocking_collective_is_the_newest_one_and_not_the_async_one_before() -> None:
    scene = job(3, {"a": (0, 1), "b": (0, 2)}).sleep(1).sleep(2)
    scene.enter(0, "a", stalled=100.0).enter(0, "b")
    assert culprits(verdict_of(scene)) == [2]


def test_a_late_rank_killed_by_the_launcher_was_late_and_did_not_crash() -> None:
    scene = one_sleeps().fail(0, "RuntimeError", TIMED_OUT, 32.0).end(0, 1, 31.9, "exception")
    scene.end(1, -15, 31.5).end(3, -15, 31.5).end(2, -9, 1.8)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.BUSY_ELSEWHERE, [2])


def test_ranks_that_exit_with_an_error_after_one_left_only_followed() -> None:
    scene = job(3).end(1, 0, 1.0, "exit")
    for rank in (0, 2):
        scene.enter(rank).end(rank, 1, 0.5)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.RANK_LEFT_EARLY, [1])


def test_a_rank_in_flight_elsewhere_does_not_need_the_one_that_left() -> None:
    scene = job(3, {"0": (0, 1, 2), "b": (1, 2)}).end(0, 0, 9.0, "exit")
    scene.progress(1, "0", enqueued=41, completed=41).enter(1, "b", stalled=1.0)
    assert silent(scene)


def test_a_second_agent_on_the_host_keeps_its_ranks_in_sight() -> None:
    scene = one_sleeps()
    scene.nodes["old"] = NodeState("host0-0", "host0", 90.0, disconnected=True)
    assert culprits(verdict_of(scene)) == [2]


def test_a_young_mismatch_does_not_hide_an_old_stall() -> None:
    scene = job(4, {"a": (0, 1), "b": (2, 3)}).enter(0, "a").sleep(1)
    scene.enter(2, "b", stalled=0.4).enter(3, "b", "barrier", (), stalled=0.4)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.BUSY_ELSEWHERE, [1])


def test_two_deaths_at_once_by_different_signals_name_both() -> None:
    verdict = verdict_of(job(4).end(1, -9, 2.0).end(2, -11, 1.98))
    assert [one.doing for one in verdict.culprits] == [
        "was killed by SIGKILL",
        "was killed by SIGSEGV",
    ]
    assert culprits(verdict_of(job(4).end(1, -9, 2.0).end(2, -11, 1.7))) == [1]


def test_one_that_had_left_in_order_is_no_victim_of_a_crash() -> None:
    scene = job(4).end(3, 0, 9.0, "exit").fail(1, "ValueError", "bad batch", 1.0)
    assert verdict_of(scene).victims == (0, 2)


def test_a_named_culprit_comes_before_ranks_that_cannot_be_seen() -> None:
    scene = job(6, {"a": (0, 1, 2, 3), "b": (4, 5)}).change(3, unobserved="old torch", groups=())
    for rank in range(3):
        scene.enter(rank, "a")
    verdict = verdict_of(scene.enter(4, "b").sleep(5))
    assert culprits(verdict) == [5]
    assert any("cannot be observed" in item.text for item in verdict.evidence)


def test_a_rank_that_still_loads_before_init_is_not_accused() -> None:
    scene = job(2).change(0, phase="init", groups=(), stalled_for=90.0, age=92.0)
    scene.change(1, phase="start", groups=(), stalled_for=5.0, age=6.0)
    assert silent(scene)


def test_a_silent_rank_counts_as_absent_beside_another_late_rank() -> None:
    scene = job(4, per_host=2)
    for rank in (0, 2, 3):
        scene.enter(rank)
    verdict = verdict_of(scene.sleep(1).node("host1", silent_for=9.0))
    assert {culprit.rank for culprit in verdict.culprits} == {1, 2, 3}
    assert {one.cause for one in verdict.culprits} == {None, Cause.NODE_FAILURE}
    assert any(item.text.startswith("also: ") for item in verdict.evidence)


def test_a_failure_that_tells_of_a_peer_does_not_outrank_the_peers_own_exception() -> None:
    scene = job(3).fail(0, "RuntimeError", CLOSED, 2.0)
    scene.fail(2, "ZeroDivisionError", "division by zero", 1.9)
    assert culprits(verdict_of(scene)) == [2]


def test_collectives_that_another_thread_of_each_rank_waits_in_count_where_no_main_thread_does():
    scene = job(3).sleep(2)
    head = "Thread 0x00007f0000000001 (most recent call first):\n"
    in_call = f'{head}  File "{C10D}", line 2800 in all_reduce\n  File "train.py", line 9 in talk\n'
    queue = (CodeLine("/lib/python3.11/queue.py", 171, "get"), user("done.get()"))
    for rank in (0, 1):
        scene.enter(rank, stack=queue, stack_age=0.5)
    assert silent(scene)
    assert EvidenceRequest(EvidenceKind.STACK, (0, 1)) in (
        diagnose(scene.change(0, stack_age=None).change(1, stack_age=None).snapshot()).requests
    )
    for rank in (0, 1):
        scene.change(rank, threads=(in_call,), stack_age=0.5)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.BUSY_ELSEWHERE, [2])
    # While main threads work, such a thread holds nobody up.
    for rank in (0, 1):
        scene.process(rank, state="R", cpu=0.9, waits_in="")
        scene.change(rank, stack=(user("loss = model(x)"),))
    assert silent(scene)


def test_a_thread_in_a_collective_excuses_no_rank_that_main_threads_wait_for():
    scene = job(3, {"0": (0, 1, 2), "1": (0, 1, 2)}).enter(0).enter(1)
    in_call = f'Thread 0x01 (most recent call first):\n  File "{C10D}", line 2800 in all_reduce\n'
    scene.enter(2, "1").sleep(2, threads=(in_call,))
    assert culprits(verdict_of(scene)) == [2]
