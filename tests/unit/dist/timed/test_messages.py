"""Sends and receives with a timeout, and the barriers."""

from typing import Any

import pytest
import torch
from torch.distributed import distributed_c10d as c10d

import dist_scenes as scenes
from ranks import play
from unstuck import dist
from unstuck.dist.timed import messages


def test_sends_and_receives_time_out_without_killing_the_group() -> None:
    found = play(2, scenes.messages)
    received, missing, recv_says, send_says, ring = found[0]
    assert (received, missing, ring) == ([5.0, 5.0], [1], [1.0, 1.0])
    assert "Rank 1 has not sent" in recv_says
    assert "Rank 1 has not received" in send_says
    assert found[1] == ([6.0, 6.0], [8.0, 8.0], 0, [0.0, 0.0])


def test_an_operation_of_a_batch_may_be_named_by_torch_or_by_this_package(world: Any) -> None:
    for op in (dist.isend, c10d.isend):
        assert dist.P2POp(op, torch.ones(1), group_peer=0).op is c10d.isend
    assert dist.P2POp(dist.irecv, torch.ones(1), group_peer=0).op is c10d.irecv


def test_messages_to_oneself_are_refused(world: Any) -> None:
    with pytest.raises(ValueError, match="destination"):
        dist.send(torch.ones(1), 0, timeout=5)
    with pytest.raises(ValueError, match="source"):
        dist.recv(torch.ones(1), 0, timeout=5)


def test_what_is_not_a_tensor_is_refused_like_torch_does(world: Any) -> None:
    for limit in ({}, {"timeout": 5}):
        with pytest.raises(TypeError, match="tensor"):
            dist.isend("no tensor", 0, **limit)


def test_the_barriers_take_their_arguments_by_position_too(world: Any) -> None:
    assert dist.barrier(None, False, None, 5) is None
    assert dist.barrier(async_op=True, timeout=5).wait()
    dist.monitored_barrier(None, 5)
    dist.monitored_barrier()


def test_a_monitored_barrier_that_fails_ends_the_group(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("Ranks 1 failed to pass monitoredBarrier in 500 ms")

    monkeypatch.setattr(messages.c10d, "monitored_barrier", fail)
    with pytest.raises(dist.CollectiveTimeout, match="ended by its own timeout"):
        dist.monitored_barrier(timeout=0.5)
    with pytest.raises(RuntimeError, match="Ranks 1 failed"):
        dist.monitored_barrier()
