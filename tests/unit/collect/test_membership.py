"""The picture of the job: the newest attempt only, and ages that grow without frames."""

from typing import Any

import pytest

from unstuck.collect.membership import Membership
from unstuck.model.frame import Frame
from unstuck.model.rank import Failure, Process, RankState


def state(number: int, *, process: Process | None = None, **fields: Any) -> RankState:
    told: dict[str, Any] = {"attempt": "a", "age": 10.0, "world_size": 4} | fields
    return RankState(number, "", process or Process(100 + number), **told)


def frame(node: str, *ranks: RankState, **fields: Any) -> Frame:
    return Frame(node, node.partition("/")[0], 1, 0.0, ranks, **fields)


def heard(*frames: Frame, at: float = 100.0) -> Membership:
    job = Membership()
    for one in frames:
        job.hear(one, at)
    return job


def ranks(job: Membership, now: float = 100.0) -> list[int]:
    return [rank.rank for rank in job.snapshot(now, 0.0).ranks]


def test_nodes_are_merged_and_ranks_sorted():
    job = heard(frame("b/1", state(3), state(2)), frame("a/1", state(1), state(0)))
    snapshot = job.snapshot(101.5, 1_800_000_000.0)

    assert [rank.rank for rank in snapshot.ranks] == [0, 1, 2, 3]
    assert [(node.host, node.silent_for) for node in snapshot.nodes] == [("a", 1.5), ("b", 1.5)]
    assert (snapshot.world_size, snapshot.taken_at, snapshot.attempt) == (4, 1_800_000_000.0, 0)


def test_new_frame_replaces_the_old_one():
    job = heard(frame("a/1", state(0), state(1)))
    job.hear(frame("a/1", state(1, step=5)), 101.0)
    assert ranks(job) == [1]
    assert job.snapshot(101.0, 0.0).ranks[0].step == 5


def test_only_the_newest_attempt_is_shown():
    old = frame("a/1", state(0, age=50.0), state(1, age=50.0))
    new = frame("b/1", state(2, attempt="b", age=1.0, restarts=1), state(3, age=49.0))
    snapshot = heard(old, new).snapshot(100.0, 0.0)

    assert [(rank.rank, rank.attempt) for rank in snapshot.ranks] == [(2, "b")]
    assert snapshot.attempt == 1


def test_rank_without_a_probe_does_not_hide_the_others():
    unprobed = state(1, attempt="", age=0.0, world_size=0, unobserved="ImportError: x")
    snapshot = heard(frame("a/1", state(0), state(2), unprobed)).snapshot(100.0, 0.0)

    assert [rank.rank for rank in snapshot.ranks] == [0, 1, 2]
    assert snapshot.ranks[1].unobserved == "ImportError: x"
    assert snapshot.world_size == 4


def test_rank_that_is_seen_in_the_newest_attempt_has_no_ghost_without_a_probe():
    unprobed = state(1, attempt="", age=0.0, unobserved="ImportError: x")
    assert ranks(heard(frame("a/1", state(0), unprobed, state(1)))) == [0, 1]


def test_job_of_which_nothing_can_be_seen_is_shown_all_the_same():
    unprobed = [state(n, attempt="", age=0.0, unobserved="x") for n in (1, 0)]
    assert ranks(heard(frame("a/1", *unprobed))) == [0, 1]


def test_what_has_ended_grows_older_without_frames():
    gone = Process(7, "gone", gone_for=2.0, exit_code=1)
    failure = Failure("ValueError", "bad", 3.0)
    job = heard(frame("a/1", state(0, process=gone, failure=failure), state(1)))
    first, second = job.snapshot(105.0, 0.0).ranks

    assert first.process.gone_for == 7.0
    assert first.failure is not None
    assert first.failure.age == 8.0
    assert second == state(1)


def test_silence_changes_nothing_but_its_length():
    snapshot = heard(frame("a/1", state(0, stalled_for=1.0))).snapshot(160.0, 0.0)

    assert snapshot.ranks == (state(0, stalled_for=1.0),)
    assert not snapshot.nodes[0].disconnected
    assert snapshot.nodes[0].silent_for == 60.0


def test_agent_that_closed_leaves_its_ranks_unobserved_until_it_is_back():
    job = heard(frame("a/1", state(0)), frame("b/1", state(1)))
    job.lose("b/1", 100.0)
    job.lose("unknown/1", 100.0)
    snapshot = job.snapshot(101.0, 0.0)
    assert [rank.unobserved for rank in snapshot.ranks] == ["", "its agent died"]
    assert [node.disconnected for node in snapshot.nodes] == [False, True]

    job.hear(frame("b/1", state(1)), 102.0)
    assert [rank.unobserved for rank in job.snapshot(102.0, 0.0).ranks] == ["", ""]


def test_job_has_ended_when_every_node_said_so():
    job = Membership()
    assert not job.all_ended(0.0)
    job.hear(frame("a/1", ended=True), 0.0)
    assert job.all_ended(0.0)
    job.hear(frame("b/1"), 0.0)
    assert not job.all_ended(0.0)


def test_agent_that_died_has_time_to_be_started_again():
    job = heard(frame("a/1", state(0)))
    job.lose("a/1", 100.0)
    assert not job.all_ended(101.0)
    assert job.all_ended(120.0)

    job.hear(frame("a/1", state(0)), 120.0)
    assert not job.all_ended(120.0)


def test_agent_that_died_while_others_ended_is_not_waited_for():
    job = heard(frame("a/1", state(0), ended=True), frame("b/1", state(1)))
    job.lose("b/1", 100.0)
    assert job.all_ended(100.1)


@pytest.mark.parametrize(
    ("process", "badly"),
    [
        (Process(7), False),
        (Process(7, "gone", gone_for=1.0, exit_code=0), False),
        (Process(7, "gone", gone_for=1.0, exit_code=-9), True),
        (Process(7, "gone", gone_for=1.0), True),
    ],
)
def test_bad_end_is_one_without_code_0(process: Process, badly: bool):
    assert heard(frame("a/1", state(0), state(1, process=process))).ended_badly == badly


def test_stopping_and_ended_are_passed_on():
    (node,) = heard(frame("a/1", stopping=True, ended=True)).snapshot(0.0, 0.0).nodes
    assert (node.stopping, node.ended) == (True, True)
