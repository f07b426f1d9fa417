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
