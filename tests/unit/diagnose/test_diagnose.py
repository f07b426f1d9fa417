"""Stories of whole jobs: what happened, and whom the verdict names."""

from msgspec.structs import replace

from scenes import (
    CLOSED,
    ENGINE,
    TIMED_OUT,
    Scene,
    culprits,
    grid,
    inside,
    job,
    one_sleeps,
    silent,
    user,
    verdict_of,
)
from unstuck.diagnose.diagnose import diagnose
from unstuck.model.rank import CodeLine, GroupProgress, Operation, Pace, PointToPoint
from unstuck.model.requests import EvidenceKind
from unstuck.model.verdict import Cause, Confidence


def test_a_sleeping_rank_is_named_with_its_line_and_its_victims() -> None:
    verdict = verdict_of(one_sleeps())
    assert verdict.cause is Cause.BUSY_ELSEWHERE
    assert culprits(verdict) == [2]
    assert (verdict.culprits[0].file, verdict.culprits[0].line) == ("train.py", 31)
    assert verdict.culprits[0].doing == "is asleep"
    assert verdict.victims == (0, 1, 3)
    assert verdict.stuck is not None
    assert (verdict.stuck.op, verdict.stuck.number, verdict.stuck.missing) == (
        "all_reduce",
        41,
        (2,),
    )
    assert verdict.chain == ("ranks 0,1,3 wait in all_reduce #41 of group 0 (4 ranks) for rank 2",)
    assert verdict.stalled_seconds == 10.0
    assert verdict.since == "2027-01-15T07:59:50.000Z"
    assert verdict.made_at == "2027-01-15T08:00:00.000Z"
    assert verdict.step == 40
    assert verdict.summary == (
        "Rank 2 is asleep at train.py:31 (evaluate), for 11 s; ranks 0,1,3 wait in "
        "all_reduce #41 of group 0 (4 ranks)."
    )


def test_a_healthy_job_between_collectives_gives_nothing_and_asks_for_nothing() -> None:
    diagnosis = diagnose(job(4).snapshot())
    assert diagnosis.verdict is None
    assert diagnosis.requests == ()


def test_waiting_shorter_than_the_jobs_own_pace_is_no_stall() -> None:
    scene = one_sleeps()
    for rank in range(4):
        scene.change(rank, pace=Pace(100, 3.0, 4.0))
    assert silent(scene)


def test_a_culprit_that_still_moves_is_slow_and_not_stuck() -> None:
    assert silent(one_sleeps().change(2, stalled_for=0.4))


def test_start_up_is_given_more_time() -> None:
    scene = one_sleeps()
    for rank in range(4):
        scene.change(rank, pace=Pace(2, 0.1, 0.1))
    assert silent(scene)


def test_suspicion_asks_for_the_recorder_of_all_and_the_stack_of_the_late_one() -> None:
    scene = job(4)
    for rank in (0, 1, 3):
        scene.enter(rank, stalled=1.5, recorder_age=None)
    scene.sleep(2, stalled=1.6, stack_age=None, recorder_age=None)
    diagnosis = diagnose(scene.snapshot())
    assert diagnosis.verdict is None
    asked = {request.kind: request.ranks for request in diagnosis.requests}
    assert asked == {EvidenceKind.RECORDER: (0, 1, 2, 3), EvidenceKind.STACK: (2,)}


def test_a_stopped_rank_is_not_asked_for_evidence() -> None:
    scene = job(4)
    for rank in (0, 1, 3):
        scene.enter(rank, stalled=1.5, recorder_age=None)
    scene.stop(2, 1.6)
    diagnosis = diagnose(scene.snapshot())
    assert all(2 not in request.ranks for request in diagnosis.requests)


def test_evidence_of_an_earlier_stall_is_asked_for_again() -> None:
    scene = one_sleeps()
    for rank in (0, 1, 3):
        scene.change(rank, recorder_age=30.0)
    kinds = [request.kind for request in diagnose(scene.snapshot()).requests]
    assert kinds == [EvidenceKind.RECORDER]


def test_the_verdict_waits_for_the_stack_but_not_for_ever() -> None:
    assert silent(_lacking_stack(4.0))
    verdict = verdict_of(_lacking_stack(5.5))
    assert culprits(verdict) == [2]
    assert "no stack" in verdict.because


def _lacking_stack(stalled: float) -> Scene:
    scene = job(4)
    for rank in (0, 1, 3):
        scene.enter(rank, stalled=stalled)
    return scene.sleep(2, stalled=stalled, stack=(), stack_age=None)


def test_all_ranks_asleep_is_nobodys_fault() -> None:
    scene = job(4)
    for rank in range(4):
        scene.sleep(rank, 600.0)
    assert silent(scene)


def test_a_stopped_rank_is_certain_after_two_seconds() -> None:
    scene = job(4)
    for rank in (0, 1, 3):
        scene.enter(rank, stalled=2.1)
    verdict = verdict_of(scene.stop(2, 2.2))
    assert verdict.cause is Cause.PROCESS_STOPPED
    assert verdict.confidence is Confidence.CERTAIN
    assert culprits(verdict) == [2]


def test_a_stopped_rank_that_nobody_waits_for_is_no_incident() -> None:
    assert silent(job(4).stop(2, 60.0))


def test_a_traced_rank_is_held_by_a_debugger() -> None:
    scene = one_sleeps().process(2, state="t", waits_in="ptrace_stop")
    assert "debugger" in verdict_of(scene).culprits[0].doing


def test_a_rank_stopped_inside_the_collective_is_named_although_it_entered() -> None:
    scene = job(4)
    for rank in range(4):
        scene.enter(rank)
    verdict = verdict_of(scene.stop(2))
    assert verdict.cause is Cause.PROCESS_STOPPED
    assert culprits(verdict) == [2]
    assert verdict.victims == (0, 1, 3)


def test_old_counters_of_a_stopped_rank_do_not_make_it_wait() -> None:
    scene = one_sleeps(4, 3)
    scene.enter(2).stop(2)
    verdict = verdict_of(scene)
    # Nobody waits for it there, but a stopped rank cannot go on either: a second fault.
    assert {one.rank: one.kind for one in verdict.culprits} == {3: "asleep", 2: "stopped"}
    assert verdict.victims == (0, 1)


def test_a_full_collective_that_does_not_complete_is_a_transport_stall() -> None:
    scene = job(4)
    for rank in range(4):
        scene.enter(rank)
    verdict = verdict_of(scene)
    assert verdict.cause is Cause.TRANSPORT_STALL
    assert verdict.culprits == ()
    assert verdict.victims == (0, 1, 2, 3)


def test_a_transport_stall_counts_from_the_last_arrival() -> None:
    scene = job(4)
    for rank in range(3):
        scene.enter(rank)
    assert silent(scene.enter(3, stalled=1.0))


def test_a_collective_that_the_others_have_just_completed_does_not_stand_still() -> None:
    scene = job(4)
    for rank in range(3):
        scene.progress(rank, "0", enqueued=41, completed=41)
    scene.enter(3)
    assert silent(scene)
    for rank in range(3):
        scene.sleep(rank, stalled=9.0)
    assert verdict_of(scene).cause is Cause.TRANSPORT_STALL


def test_host_run_ahead_does_not_hide_the_first_incomplete_operation() -> None:
    scene = one_sleeps()
    for rank in (0, 1, 3):
        scene.enter(rank, stack=(user("torch.cuda.synchronize()"),), stalled=9.0)
        scene.enter(rank, stack=(user("torch.cuda.synchronize()"),), stalled=8.0)
    verdict = verdict_of(scene)
    assert verdict.stuck is not None
    assert (verdict.stuck.number, culprits(verdict)) == (41, [2])


def test_a_rank_asleep_with_async_work_outstanding_does_not_wait() -> None:
    layout = {"a": (0, 1), "b": (1, 2)}
    scene = job(3, layout).enter(1, "a")
    scene.sleep(1, in_flight=True)
    scene.enter(2, "b")
    scene.sleep(0)
    verdict = verdict_of(scene)
    assert culprits(verdict) == [1]
    assert verdict.victims == (2,)


def test_a_rank_that_computes_with_async_work_outstanding_does_not_wait() -> None:
    scene = job(2)
    scene.enter(0, stack=(user("loss = model(batch)"),), stack_age=0.5).process(0, cpu=0.97)
    scene.sleep(1)
    assert silent(scene)


def test_a_user_line_that_calls_wait_on_work_is_blocked() -> None:
    scene = one_sleeps()
    for rank in (0, 1, 3):
        scene.change(rank, stack=(user("work.wait()"),))
    assert culprits(verdict_of(scene)) == [2]


def test_ddp_backward_is_blocked_in_the_collective() -> None:
    scene = one_sleeps()
    for rank in (0, 1, 3):
        scene.change(rank, stack=(ENGINE, user("loss.backward()")))
    assert culprits(verdict_of(scene)) == [2]


def test_a_broadcast_root_that_completed_early_is_not_blamed() -> None:
    scene = job(4)
    for rank in (1, 2):
        scene.enter(rank, op="broadcast")
    scene.progress(0, "0", enqueued=41, completed=41).sleep(0)
    verdict = verdict_of(scene.sleep(3))
    assert culprits(verdict) == [3]


def test_blame_passes_through_tensor_pipeline_and_data_groups() -> None:
    scene = job(8, grid(2, 2, 2))
    scene.sleep(5)
    scene.enter(4, "tp0.1")
    for rank in (0, 2, 6):
        scene.enter(rank, {0: "dp0.0", 2: "pp0.0", 6: "pp0.1"}[rank])
    for rank in (1, 3, 7):
        scene.enter(rank, {1: "dp1.0", 3: "pp1.0", 7: "pp1.1"}[rank])
    verdict = verdict_of(scene)
    assert culprits(verdict) == [5]
    assert verdict.victims == (0, 1, 2, 3, 4, 6, 7)
    assert verdict.chain[-1].endswith("for rank 5")


def test_two_independent_faults_of_one_kind_are_one_verdict() -> None:
    scene = job(4, {"a": (0, 1), "b": (2, 3)})
    scene.enter(0, "a").sleep(1).enter(2, "b").sleep(3)
    verdict = verdict_of(scene)
    assert culprits(verdict) == [1, 3]
    assert verdict.victims == (0, 2)


def test_two_independent_faults_of_two_kinds_name_the_larger_first() -> None:
    scene = job(5, {"a": (0, 1), "b": (2, 3, 4)})
    scene.enter(0, "a").sleep(1).enter(2, "b").enter(3, "b").stop(4)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.PROCESS_STOPPED, [4, 1])
    assert [one.cause for one in verdict.culprits] == [None, Cause.BUSY_ELSEWHERE]
    assert any("rank 1 is asleep" in item.text.lower() for item in verdict.evidence)


def test_a_fault_that_reaches_its_limit_a_moment_later_is_told_with_the_first() -> None:
    def both(first: float, second: float) -> Scene:
        scene = job(4, {"a": (0, 1), "b": (2, 3)})
        scene.enter(0, "a", stalled=first).sleep(1, stalled=first + 0.1)
        return scene.enter(2, "b", stalled=second).sleep(3, stalled=second + 0.1)

    assert silent(both(3.2, 2.8))
    assert culprits(verdict_of(both(3.5, 3.1))) == [1, 3]
    assert culprits(verdict_of(both(3.2, 1.8))) == [1]


def test_order_inversion_over_two_groups_blames_the_minority() -> None:
    members = (0, 1, 2)
    scene = job(3, {"a": members, "b": members})
    scene.enter(0, "a", stack_age=0.5).enter(1, "a", stack_age=0.5).enter(2, "b", stack_age=0.5)
    verdict = verdict_of(scene)
    assert (verdict.cause, verdict.confidence) == (Cause.ORDER_INVERSION, Confidence.LIKELY)
    assert culprits(verdict) == [2]
    assert verdict.victims == (0, 1)


def test_order_inversion_without_majority_names_both_sides() -> None:
    scene = job(2, {"a": (0, 1), "b": (0, 1)})
    scene.enter(0, "a", stack_age=0.5).enter(1, "b", stack_age=0.5)
    verdict = verdict_of(scene)
    assert (verdict.cause, verdict.confidence) == (Cause.ORDER_INVERSION, Confidence.POSSIBLE)
    assert culprits(verdict) == [0, 1]


def test_two_ranks_that_receive_from_each_other_wait_in_a_circle() -> None:
    scene = job(2)
    for rank, peer in ((0, 1), (1, 0)):
        scene.message(rank, PointToPoint("recv", "0", peer, 1, age=10), call="recv")
        scene.change(rank, stack_age=0.5)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.ORDER_INVERSION, [0, 1])


def test_a_receive_waits_for_the_sender_that_did_not_come() -> None:
    scene = job(2)
    scene.message(0, PointToPoint("recv", "0", 1, 1, age=10), call="recv")
    verdict = verdict_of(scene.sleep(1))
    assert culprits(verdict) == [1]
    assert verdict.chain == ("rank 0 waits in recv from rank 1 for rank 1",)


def test_a_receive_whose_send_is_posted_is_a_transport_stall() -> None:
    scene = job(2)
    scene.message(0, PointToPoint("recv", "0", 1, 3, age=10), call="recv")
    scene.message(1, PointToPoint("send", "0", 0, 3, age=10), call="send")
    assert verdict_of(scene).cause is Cause.TRANSPORT_STALL


def test_an_unwaited_isend_does_not_make_its_rank_wait_for_the_receiver() -> None:
    scene = job(4)
    stale = PointToPoint("send", "0", 3, 1, age=500.0)
    scene.change(0, p2p=(stale,))
    for rank in (0, 1, 3):
        scene.enter(rank)
    verdict = verdict_of(scene.sleep(2))
    assert culprits(verdict) == [2]
    assert len(verdict.chain) == 1


def test_a_receive_from_anybody_waits_for_those_who_do_not_wait() -> None:
    scene = job(3)
    scene.message(0, PointToPoint("recv", "0", -1, 1, age=10), call="recv")
    scene.message(1, PointToPoint("recv", "0", 0, 1, age=10), call="recv")
    verdict = verdict_of(scene.sleep(2))
    assert culprits(verdict) == [2]
    assert verdict.victims == (0, 1)


def test_a_silent_node_is_a_possible_node_failure_or_partition() -> None:
    scene = job(4, per_host=2)
    scene.enter(0, stalled=5).enter(1, stalled=5).node("host1", silent_for=4.0)
    verdict = verdict_of(scene)
    assert (verdict.cause, verdict.confidence) == (Cause.NODE_FAILURE, Confidence.POSSIBLE)
    assert culprits(verdict) == [2, 3]
    assert [one.cause for one in verdict.alternatives] == [Cause.NETWORK_PARTITION]


def test_a_silent_node_is_named_although_its_last_frame_says_it_entered() -> None:
    scene = job(4, per_host=2)
    for rank in range(4):
        scene.enter(rank)
    assert culprits(verdict_of(scene.node("host1", silent_for=9.0))) == [2, 3]


def test_a_silent_node_that_nobody_waits_for_is_no_incident() -> None:
    assert silent(job(4, per_host=2).node("host1", silent_for=60.0))


def test_ranks_of_a_lost_agent_are_never_accused() -> None:
    scene = job(4, per_host=2)
    scene.enter(0).enter(1).node("host1", silent_for=60.0, disconnected=True)
    verdict = verdict_of(scene)
    assert (verdict.cause, verdict.culprits) == (Cause.UNKNOWN, ())
    assert "host1" in verdict.because


def test_the_watchdog_that_fires_first_belongs_to_an_innocent_rank() -> None:
    scene = one_sleeps()
    scene.fail(0, "RuntimeError", TIMED_OUT, 2.0).end(0, 1, 1.8, "exception")
    scene.fail(1, "RuntimeError", CLOSED, 1.9).fail(3, "RuntimeError", CLOSED, 1.9)
    verdict = verdict_of(scene)
    assert culprits(verdict) == [2]
    assert verdict.victims == (0, 1, 3)


def test_the_late_rank_is_named_even_after_the_launcher_ended_it() -> None:
    scene = one_sleeps()
    scene.fail(0, "RuntimeError", TIMED_OUT, 2.0).end(0, 1, 1.8, "exception")
    scene.end(1, -15, 1.6).end(3, -15, 1.6).end(2, -15, 1.6)
    verdict = verdict_of(scene)
    assert culprits(verdict) == [2]
    assert verdict.victims == (0, 1, 3)
    assert any(item.role == "cascade" for item in verdict.evidence)


def test_nothing_is_judged_while_the_user_ends_the_job() -> None:
    scene = one_sleeps().node("host0", stopping=True)
    scene.end(1, -2, 3.0)
    assert silent(scene)


def test_the_verdict_does_not_depend_on_the_order_of_ranks_and_nodes() -> None:
    scene = job(8, grid(2, 2, 2), per_host=2)
    scene.sleep(5).enter(4, "tp0.1").stop(3).enter(2, "tp1.0").enter(0, "dp0.0")
    snapshot = scene.snapshot()
    first = diagnose(snapshot)
    assert first.verdict is not None
    turned = replace(snapshot, ranks=snapshot.ranks[::-1], nodes=snapshot.nodes[::-1])
    assert diagnose(turned) == first


def test_a_verdict_on_deaths_does_not_depend_on_the_order_of_ranks() -> None:
    scene = job(6).end(3, -9, 2.0).end(1, -9, 2.0).end(0, -15, 1.0).end(5, -15, 1.0)
    snapshot = scene.snapshot()
    assert diagnose(replace(snapshot, ranks=snapshot.ranks[::-1])) == diagnose(snapshot)


def test_a_rank_that_waits_for_its_loader_with_async_work_outstanding_is_the_culprit() -> None:
    loader = CodeLine("/lib/torch/utils/data/dataloader.py", 1251, "_try_get_data")
    scene = job(2, {"a": (0, 1), "b": (0, 1)})
    scene.enter(1, "a", stack=(loader, user("for batch in loader:")), stack_age=0.5)
    scene.enter(0, "a").enter(0, "b", "barrier", stack=inside("barrier"))
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.HOST_DEADLOCK, [1])


def test_a_rank_that_holds_the_gil_is_named_although_it_entered() -> None:
    scene = job(3)
    for rank in range(3):
        scene.enter(rank)
    scene.change(1, gil_held=True, beat_age=9.0, stack=(user("re.match(p, s)"),), stack_age=0.5)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.HOST_DEADLOCK, [1])
    assert verdict.victims == (0, 2)


def test_a_rank_without_beats_is_asked_for_its_stack() -> None:
    scene = job(3)
    for rank in range(3):
        scene.enter(rank, stalled=1.5)
    scene.change(1, beat_age=1.4)
    asked = {one.kind: one.ranks for one in diagnose(scene.snapshot()).requests}
    assert asked == {EvidenceKind.STACK: (1,)}


def test_groups_of_one_name_but_other_members_are_not_compared() -> None:
    scene = job(4, {"a": (0, 1), "b": (2, 3)})
    for rank in range(4):
        groups = scene.states[rank].groups
        scene.change(rank, groups=tuple(_renamed(one) for one in groups))
    scene.enter(2, "same").enter(3, "same")
    scene.sleep(0)
    assert verdict_of(scene).cause is Cause.TRANSPORT_STALL


def test_a_leaver_is_not_blamed_by_another_group_of_the_same_name() -> None:
    scene = job(4, {"a": (0, 1), "b": (2, 3)})
    for rank in range(4):
        groups = scene.states[rank].groups
        scene.change(rank, groups=tuple(_renamed(one) for one in groups))
    scene.end(0, 0, 5.0, "exit").enter(2, "same", stalled=1.0)
    assert silent(scene)


def _renamed(group: GroupProgress) -> GroupProgress:
    return GroupProgress("same", group.ranks, group.enqueued, group.completed)


def test_old_pending_entries_that_completed_since_are_not_the_head() -> None:
    scene = one_sleeps()
    old = Operation("0", 12, "broadcast", ((9,),), ("Float",), 300.0)
    for rank in (0, 1, 3):
        scene.progress(rank, "0", pending=(old,)).change(rank, recorder_age=290.0)
    verdict = verdict_of(scene)
    assert verdict.stuck is not None
    assert (verdict.stuck.number, culprits(verdict)) == (41, [2])


def test_an_overdue_frame_is_waited_for_before_a_late_rank_is_accused() -> None:
    scene = job(4, per_host=2)
    for rank in (0, 1):
        scene.enter(rank, stalled=2.0).fail(rank, "RuntimeError", CLOSED, 1.8)
    assert silent(scene.node("host1", silent_for=1.9))
    verdict = verdict_of(scene.node("host1", silent_for=3.1))
    assert (verdict.cause, culprits(verdict)) == (Cause.NODE_FAILURE, [2, 3])


def test_pipeline_warm_up_with_uneven_counts_is_healthy() -> None:
    scene = job(4, {"pp": (0, 1, 2, 3), "tp0": (0, 1), "tp1": (2, 3)})
    for rank in range(4):
        scene.progress(rank, f"tp{rank // 2}", enqueued=90 - 8 * rank, completed=90 - 8 * rank)
        pending = PointToPoint("recv", "pp", (rank - 1) % 4, 7, age=0.4)
        scene.message(rank, pending, call="recv", stalled=0.4)
    assert silent(scene)


def test_a_broken_pipeline_blames_the_stage_that_does_not_send() -> None:
    scene = job(4)
    for rank in (1, 2, 3):
        recv = PointToPoint("recv", "0", rank - 1, 7, age=10.0)
        unwaited = PointToPoint("send", "0", (rank + 1) % 4, 6, age=12.0)
        scene.message(rank, unwaited, recv, call="recv")
    verdict = verdict_of(scene.sleep(0))
    assert culprits(verdict) == [0]
    assert verdict.victims == (1, 2, 3)
    assert verdict.chain == (
        "rank 3 waits in recv from rank 2 for rank 2",
        "rank 2 waits in recv from rank 1 for rank 1",
        "rank 1 waits in recv from rank 0 for rank 0",
    )


def test_a_rank_seen_only_from_outside_is_not_accused() -> None:
    scene = one_sleeps().change(2, unobserved="the probe could not start", groups=())
    verdict = verdict_of(scene)
    assert (verdict.cause, verdict.culprits) == (Cause.UNKNOWN, ())
    assert "the probe could not start" in verdict.because


def test_uneven_data_with_a_rank_in_its_next_phase_in_another_group() -> None:
    members = (0, 1, 2, 3)
    scene = job(4, {"0": members, "eval": members})
    for rank in (0, 1, 3):
        scene.enter(rank, "0", stack_age=0.5)
    verdict = verdict_of(scene.enter(2, "eval", stack_age=0.5))
    assert (verdict.cause, culprits(verdict)) == (Cause.ORDER_INVERSION, [2])
    assert Cause.UNEVEN_WORK in [one.cause for one in verdict.alternatives]
