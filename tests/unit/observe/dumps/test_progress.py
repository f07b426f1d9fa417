"""How far the ranks got, counted from what the recorder wrote."""

from pathlib import Path
from typing import Any

import pytest

from recorded import (
    blamed,
    dump,
    entry,
    gloo,
    message,
    put,
    put_json,
    rank,
    scheduled,
    snapshot_of,
    started,
    verdict_of,
)


@pytest.mark.parametrize("write", [put, put_json])
def test_nccl_host_that_ran_ahead_is_a_victim(write: Any, tmp_path: Path):
    ahead = dump(entry(1), started(2), *(scheduled(number) for number in range(3, 40)))
    write(tmp_path, {0: ahead, 1: dump(entry(1)), 2: ahead, 3: ahead})
    verdict = verdict_of(tmp_path)

    assert verdict is not None
    assert blamed(verdict) == [1]
    assert verdict.victims == (0, 2, 3)
    assert verdict.stuck is not None
    assert verdict.stuck.number == 2


def test_nccl_operation_that_timed_out_is_retired_but_not_done(tmp_path: Path):
    timed_out = dump(entry(1), started(2, retired=True))
    put(tmp_path, {0: timed_out, 1: timed_out, 2: timed_out, 3: dump(entry(1))})
    assert blamed(verdict_of(tmp_path)) == [3]


def test_receive_without_send_names_the_rank_that_did_not_send(tmp_path: Path):
    put(
        tmp_path,
        {
            0: dump(entry(1), size=3),
            1: dump(entry(1), message(2, "recv 1<-0"), size=3),
            2: dump(entry(1), message(2, "recv 2<-1"), size=3),
        },
    )
    verdict = verdict_of(tmp_path)

    assert verdict is not None
    assert blamed(verdict) == [0]
    assert verdict.victims == (1, 2)


def test_messages_of_a_coalesced_batch_have_the_state_of_its_end(tmp_path: Path):
    part = scheduled(1, "send 0->1", is_p2p=True, p2p_seq_id=1, collective_seq_id=0)
    end = entry(2, "coalesced", is_p2p=True, p2p_seq_id=1, collective_seq_id=0)
    put(tmp_path, {0: dump(part, end, size=2), 1: dump(size=2)})
    state = rank(snapshot_of(tmp_path), 0)
    assert state.p2p == ()
    assert not state.in_flight


def test_messages_are_counted_from_the_first_incomplete_one_once_the_ring_was_overwritten(
    tmp_path: Path,
):
    done = entry(1, "send 0->1", is_p2p=True, p2p_seq_id=1, collective_seq_id=0)
    waits = message(2, "send 0->1")
    whole = put(tmp_path / "whole", {0: dump(done, waits, size=2), 1: dump(size=2)})
    done, waits = done | {"record_id": 7000}, waits | {"record_id": 7001}
    cut = put(tmp_path / "cut", {0: dump(done, waits, size=2), 1: dump(size=2)})

    assert [one.ordinal for one in rank(snapshot_of(whole), 0).p2p] == [2]
    assert [one.ordinal for one in rank(snapshot_of(cut), 0).p2p] == [1]


def test_parts_of_a_coalesced_collective_are_one_operation(tmp_path: Path):
    parts = [scheduled(1, "_all_gather_base"), scheduled(1, "_all_gather_base")]
    end = entry(1, "coalesced")
    put(tmp_path, {0: dump(*parts, end, started(2), size=2), 1: dump(*parts, end, size=2)})
    (group,) = rank(snapshot_of(tmp_path), 0).groups
    assert (group.enqueued, group.completed) == (2, 1)
    assert blamed(verdict_of(tmp_path)) == [1]


def test_a_dump_of_only_what_is_active_takes_its_count_from_the_status(tmp_path: Path):
    status = {"0": {"last_enqueued_collective": 9, "last_completed_collective": 8}}
    put(tmp_path, {0: dump(started(9), pg_status=status)})
    (group,) = rank(snapshot_of(tmp_path), 0).groups
    assert (group.enqueued, group.completed) == (9, 8)


def test_a_dump_of_the_status_alone_still_counts(tmp_path: Path):
    ahead = {"0": {"last_enqueued_collective": 9, "last_completed_collective": 8}}
    behind = {"0": {"last_enqueued_collective": 8, "last_completed_collective": 8}}
    put(tmp_path, {0: dump(pg_status=ahead, size=2), 1: dump(pg_status=behind, size=2)})
    assert rank(snapshot_of(tmp_path), 0).in_flight
    assert blamed(verdict_of(tmp_path)) == [1]


def test_gloo_operation_that_failed_by_timeout_counts_as_incomplete(tmp_path: Path):
    """gloo retires it as if it had completed; the rank that never began it gives it away."""
    gave_up = gloo(entry(1), entry(2))
    put(tmp_path, {0: gave_up, 1: gloo(entry(1)), 2: gave_up, 3: gave_up})
    verdict = verdict_of(tmp_path)
    assert blamed(verdict) == [1]
    assert verdict is not None
    assert verdict.stuck is not None
    assert verdict.stuck.number == 2


def test_gloo_dumps_of_different_moments_accuse_nobody(tmp_path: Path):
    later = gloo(*(entry(number) for number in range(1, 6)))
    put(tmp_path, {0: later, 1: gloo(entry(1)), 2: later, 3: later})
    assert verdict_of(tmp_path) is None


def test_gloo_broadcast_may_complete_at_its_root_before_the_others_come(tmp_path: Path):
    root = gloo(entry(1), entry(2, "broadcast"))
    put(tmp_path, {0: root, 1: gloo(entry(1)), 2: gloo(entry(1)), 3: gloo(entry(1))})
    assert verdict_of(tmp_path) is None
