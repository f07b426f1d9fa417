"""Sends and receives behind which a host has issued more: a device takes them in order."""

from typing import Any

from scenes import culprits, job, user, verdict_of
from unstuck.model.rank import GroupProgress, PointToPoint
from unstuck.model.verdict import Cause

LINE = {"pp": (0, 1, 2), "0": (0, 1, 2)}


def pipeline(backend: str) -> Any:
    """Rank 0 sleeps; 1 receives from it, 2 from 1. All hosts have issued what comes after."""
    scene = job(3, LINE)
    for rank in (1, 2):
        scene.enter(rank, "0", stalled=9.0, stack=(user("loss.item()"),))
        groups = tuple(
            GroupProgress(g.name, g.ranks, g.enqueued, g.completed, "", backend, g.pending)
            for g in scene.states[rank].groups
        )
        receive = PointToPoint("recv", "pp", rank - 1, 5, age=10.0)
        send = PointToPoint("send", "pp", rank + 1, 5, age=9.5)
        scene.change(rank, groups=groups, p2p=(receive, send) if rank == 1 else (receive,))
    return scene.sleep(0)


def test_on_a_device_the_older_receive_comes_before_the_collective_behind_it():
    verdict = verdict_of(pipeline("nccl"))
    assert culprits(verdict) == [0]
    assert verdict.cause is Cause.BUSY_ELSEWHERE
    assert verdict.chain == (
        "rank 2 waits in recv from rank 1 for rank 1",
        "rank 1 waits in recv from rank 0 for rank 0",
    )


def test_on_gloo_what_both_sides_have_issued_needs_nobody_else():
    """A message goes its way by itself there; the collective is what the threads wait in."""
    verdict = verdict_of(pipeline("gloo"))
    assert culprits(verdict) == [0]
    assert verdict.stuck is not None
    assert verdict.stuck.op == "all_reduce"


def test_a_send_that_nobody_receives_is_the_senders() -> None:
    scene = job(4).enter(0).enter(1).enter(3)
    scene.message(2, PointToPoint("send", "0", 3, 1, age=10), call="send")
    for rank in range(4):
        scene.change(rank, stack_age=0.5)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.COLLECTIVE_MISMATCH, [2])
    assert "which has no counterpart" in verdict.culprits[0].doing


def test_a_receive_left_out_after_many_is_the_receivers() -> None:
    scene = job(4).enter(0).enter(2).enter(3)
    scene.message(1, PointToPoint("send", "0", 2, 31, age=10), call="send")
    for rank in range(4):
        scene.change(rank, stack_age=0.5)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.COLLECTIVE_MISMATCH, [2])
    assert "30 times before" in verdict.because


def test_a_receive_from_anybody_while_all_others_are_in_a_collective() -> None:
    scene = job(3).enter(0).enter(1)
    scene.message(2, PointToPoint("recv", "0", -1, 1, age=10), call="recv")
    for rank in range(3):
        scene.change(rank, stack_age=0.5)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.COLLECTIVE_MISMATCH, [2])


def test_a_wrong_peer_is_where_most_unanswered_messages_meet() -> None:
    scene = job(4)
    ways = {0: ("recv", 3), 1: ("send", 2), 2: ("send", 0), 3: ("recv", 2)}
    for rank, (kind, peer) in ways.items():
        scene.message(rank, PointToPoint(kind, "0", peer, 5, age=10), call=kind)
        scene.change(rank, stack_age=0.5)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.COLLECTIVE_MISMATCH, [2])


def test_all_sending_first_is_an_inversion_not_a_wrong_peer() -> None:
    scene = job(3)
    for rank in range(3):
        scene.message(rank, PointToPoint("send", "0", (rank + 1) % 3, 1, age=10), call="send")
        scene.change(rank, stack_age=0.5)
    assert verdict_of(scene).cause is Cause.ORDER_INVERSION
