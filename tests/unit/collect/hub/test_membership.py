"""The picture of the job: the newest attempt only, and ages that grow without frames."""

from typing import Any

import pytest

from unstuck.collect.hub.membership import Membership
from unstuck.model.frame import Frame
from unstuck.model.host import PeerLink
from unstuck.model.rank import Failure, Process, ProcessState, RankState


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


def test_ranks_of_a_lost_node_do_not_become_the_newest_by_standing_still():
    job = heard(frame("a/1", state(0, age=10.0)), frame("b/1", state(1, age=10.0)))
    job.lose("b/1", 101.0)
    job.hear(frame("a/1", state(0, attempt="b", age=60.0, restarts=1)), 170.0)
    snapshot = job.snapshot(170.0, 0.0)
    assert [(rank.rank, rank.attempt) for rank in snapshot.ranks] == [(0, "b")]


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
    gone = Process(7, ProcessState.GONE, gone_for=2.0, exit_code=1)
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
        (Process(7, ProcessState.GONE, gone_for=1.0, exit_code=0), False),
        (Process(7, ProcessState.GONE, gone_for=1.0, exit_code=-9), True),
        (Process(7, ProcessState.GONE, gone_for=1.0), True),
    ],
)
def test_bad_end_is_one_without_code_0(process: Process, badly: bool):
    assert heard(frame("a/1", state(0), state(1, process=process))).ended_badly == badly


def test_stopping_and_ended_are_passed_on():
    (node,) = heard(frame("a/1", stopping=True, ended=True)).snapshot(0.0, 0.0).nodes
    assert (node.stopping, node.ended) == (True, True)


def test_node_that_was_sent_away_is_no_part_of_the_attempt_that_goes_on_without_it():
    away = frame("b/1", state(1), stopping=True, ended=True)
    job = heard(frame("a/1", state(0)), away)
    assert [node.host for node in job.snapshot(100.0, 0.0).nodes] == ["a", "b"]

    job.hear(frame("a/1", state(0, attempt="b", age=1.0, process=Process(200))), 105.0)
    assert [node.host for node in job.snapshot(105.0, 0.0).nodes] == ["a"]
    assert not job.all_ended(105.0)

    newborn = state(1, attempt="", age=0.0, world_size=0)
    job.hear(frame("b/3", newborn, stopping=True), 105.0)
    assert [node.node for node in job.snapshot(105.0, 0.0).nodes] == ["a/1", "b/3"]
    job.lose("b/3", 105.5)
    assert [node.node for node in job.snapshot(106.0, 0.0).nodes] == ["a/1"]
    assert ranks(job, 106.0) == [0]

    job.hear(frame("b/2", state(1, attempt="b", age=1.0)), 106.0)
    assert [node.node for node in job.snapshot(106.0, 0.0).nodes] == ["a/1", "b/2"]


def test_node_whose_user_ended_it_is_seen_to_end_also_before_it_had_ranks():
    assert heard(frame("a/1", stopping=True, ended=True)).snapshot(100.0, 0.0).nodes


def test_story_of_a_node_that_was_cut_off_stays_in_the_picture_for_a_while():
    told = frame("a/1", state(0), cut_off_for=7.0, unheard=("b",), heard=("c",))
    job = heard(told)
    job.hear(frame("a/1", state(0)), 101.0)
    (node,) = job.snapshot(105.0, 0.0).nodes
    assert (node.cut_off_for, node.unheard, node.heard) == (7.0, ("b",), ("c",))
    (node,) = job.snapshot(115.0, 0.0).nodes
    assert (node.cut_off_for, node.unheard, node.heard) == (0.0, (), ())


def test_second_story_replaces_the_first():
    job = heard(frame("a/1", cut_off_for=7.0))
    job.hear(frame("a/1"), 103.0)
    job.hear(frame("a/1", cut_off_for=4.0), 108.0)
    assert job.snapshot(109.0, 0.0).nodes[0].cut_off_for == 4.0


def test_end_of_a_connection_that_was_dead_before_is_news_only_if_no_new_one_comes():
    job = heard(frame("a/1", state(0)))
    job.lose("a/1", 106.0)
    assert not job.snapshot(107.0, 0.0).nodes[0].disconnected
    assert job.snapshot(110.0, 0.0).nodes[0].disconnected
    job.hear(frame("a/1", state(0)), 108.0)
    assert not job.snapshot(110.0, 0.0).nodes[0].disconnected


def hears(node: str, other: str, seconds: float = 0.1) -> Frame:
    return frame(node, state(0), links=(PeerLink(other, other[0], seconds, 9.0, 0.001),))


def test_agent_that_closed_and_is_still_heard_by_a_peer_is_cut_off_and_not_gone():
    job = heard(hears("a/1", "b/1"), hears("b/1", "a/1"))
    job.lose("b/1", 101.5)
    job.hear(hears("a/1", "b/1"), 101.7)
    assert job.may_be_alive("b/1", 102.0)
    assert not job.snapshot(102.0, 0.0).nodes[1].disconnected

    job.hear(hears("a/1", "b/1"), 102.2)
    node = job.snapshot(109.0, 0.0).nodes[1]
    assert (node.disconnected, node.silent_for) == (False, 9.0)
    assert not job.is_lost("b/1", 109.0)


def test_agent_that_closed_and_that_no_peer_hears_any_more_is_gone():
    job = heard(hears("a/1", "b/1"), hears("b/1", "a/1"))
    job.lose("b/1", 100.5)
    for later in (0.2, 0.7, 1.2):
        job.hear(hears("a/1", "b/1", later), 100.5 + later)
    assert not job.may_be_alive("b/1", 102.1)
    assert job.is_lost("b/1", 102.1)
    assert [node.disconnected for node in job.snapshot(102.1, 0.0).nodes] == [False, True]


def test_links_and_the_hubs_host_are_passed_on():
    job = Membership("here")
    link = PeerLink("b/1", "b", 0.1, 0.2, 0.001)
    job.hear(frame("a/1", links=(link,)), 0.0)
    snapshot = job.snapshot(0.0, 0.0)
    assert (snapshot.hub, snapshot.nodes[0].links) == ("here", (link,))


def test_frames_are_steady_until_there_is_a_gap():
    job = Membership()
    for now in (100.0, 101.0, 102.5):
        job.hear(frame("a/1"), now)
    assert job.snapshot(103.0, 0.0).nodes[0].steady_for == 2.5
    job.hear(frame("a/1"), 106.0)
    assert job.snapshot(106.0, 0.0).nodes[0].steady_for == 0.0


def test_end_of_a_launcher_grows_older_without_frames():
    told = heard(frame("a/1", launcher_exit=-9, launcher_gone_for=0.5), frame("b/1"))
    first, second = told.snapshot(102.0, 0.0).nodes

    assert (first.launcher_exit, first.launcher_gone_for) == (-9, 2.5)
    assert (second.launcher_exit, second.launcher_gone_for) == (None, 0.0)


def test_old_connection_that_ends_behind_late_frames_is_no_loss_unless_no_new_one_comes():
    job = heard(frame("a/1"))
    job.hear(frame("a/1"), 104.0)
    job.lose("a/1", 104.1)

    assert not job.snapshot(104.2, 0.0).nodes[0].disconnected
    assert job.snapshot(107.2, 0.0).nodes[0].disconnected
    job.hear(frame("a/1"), 107.3)
    assert not job.snapshot(107.3, 0.0).nodes[0].disconnected
