"""One classification of nodes and ranks: callbacks, answers, lease and verdicts go by it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstuck.collect import answers
from unstuck.diagnose.job.standing import survey
from unstuck.model import liveness
from unstuck.model.host import PeerLink
from unstuck.model.liveness import Doubt, Life, Standing
from unstuck.model.rank import Phase, Process, ProcessState, RankState
from unstuck.model.snapshot import NodeState, Snapshot


def node(silent_for: float, **fields: Any) -> NodeState:
    return NodeState("b/1", "b", silent_for, **fields)


@pytest.mark.parametrize(
    ("state", "life"),
    [
        (node(0.4), Life.PRESENT),
        (node(1.6), Life.LATE),
        (node(3.1), Life.SILENT),
        (node(1.6, suspect_after=1.5), Life.SILENT),
        (node(4.0, suspect_after=5.0), Life.LATE),
        (node(3.1, kernel_answers=True), Life.STOPPED),
        (node(0.4, kernel_answers=True), Life.PRESENT),
        (node(0.4, disconnected=True), Life.LOST),
        (node(9.0, ended=True, disconnected=True), Life.ENDED),
    ],
)
def test_node_is_classified_by_its_last_frame_and_the_learned_limit(state: NodeState, life: Life):
    assert liveness.of_node(state) is life


@pytest.mark.parametrize(
    ("silent_for", "doubt", "life"),
    [
        (1.2, Doubt.ALL, Life.SILENT),
        (1.0, Doubt.ALL, Life.PRESENT),
        (1.2, Doubt.SOME, Life.PRESENT),
        (2.1, Doubt.SOME, Life.SILENT),
        (2.1, Doubt.NONE, Life.LATE),
    ],
)
def test_node_that_its_peers_miss_is_silent_sooner(silent_for: float, doubt: Doubt, life: Life):
    assert liveness.of_node(node(silent_for), doubt) is life


def test_node_that_hears_nobody_counts_from_then():
    deaf = node(1.2, links=(PeerLink("a/1", "a", 1.8),))
    assert liveness.out_of_touch_for(deaf) == pytest.approx(2.2)
    assert liveness.of_node(deaf, Doubt.SOME) is Life.SILENT


@pytest.mark.parametrize(
    ("silent_for", "learned", "late", "silent"),
    [
        (1.4, 3.0, False, False),
        (1.6, 1.5, True, False),
        (3.1, 1.5, False, True),
        (3.1, 5.0, True, False),
        (5.1, 5.0, False, True),
    ],
)
def test_verdict_waits_for_three_missing_frames_and_for_the_learned_limit(
    silent_for: float, learned: float, late: bool, silent: bool
):
    state = node(silent_for, suspect_after=learned)
    assert liveness.is_late(state) is late
    assert liveness.is_silent_for_verdict(state, doubted=False) is silent


def test_old_bundles_without_a_learned_limit_fall_back_to_three_seconds():
    assert liveness.verdict_limit(NodeState("b/1", "b")) == 3.0


def test_peers_that_say_nothing_fresh_cast_no_doubt():
    lost = PeerLink("b/1", "b", 4.0, suspect=True)
    assert liveness.doubts([NodeState("a/1", "a", 0.2, links=(lost,))]) == {
        "a": Doubt.SOME,
        "b": Doubt.ALL,
    }
    assert liveness.doubts([NodeState("a/1", "a", 2.0, links=(lost,))]) == {}
    assert liveness.doubts([NodeState("a/1", "a", 0.2, links=(PeerLink("b/1", "b", 0.1),))]) == {}


def test_host_is_heard_if_any_of_its_agents_is():
    nodes = (NodeState("b/1", "b", 9.0), NodeState("b/2", "b", 0.1), NodeState("c/1", "c", 9.0))
    assert liveness.silent_hosts(Snapshot(0.0, nodes)) == {"c"}


@pytest.mark.parametrize(
    ("process", "fields", "standing"),
    [
        (Process(7, ProcessState("S")), {}, Standing.LIVE),
        (Process(7, ProcessState("T")), {}, Standing.STOPPED),
        (Process(7, ProcessState("F")), {}, Standing.STOPPED),
        (Process(7, ProcessState("Z")), {}, Standing.GONE),
        (Process(7, ProcessState("S"), gone_for=0.0), {}, Standing.GONE),
        (Process(7, ProcessState("S")), {"unobserved": "no page"}, Standing.UNSEEN),
        (Process(7, ProcessState("T")), {"unobserved": "no page"}, Standing.STOPPED),
    ],
)
def test_rank_is_classified_by_its_process(
    process: Process, fields: dict[str, Any], standing: Standing
):
    assert liveness.of_rank(RankState(0, "a", process, **fields)) is standing


def test_what_is_known_of_a_rank_goes_before_what_is_not_known_of_its_host():
    alive, gone = (
        RankState(0, "a", Process(7, ProcessState("T"))),
        RankState(0, "a", Process(7, ProcessState("gone"))),
    )
    assert liveness.of_rank(alive, silent={"a"}) is Standing.SILENT
    assert liveness.of_rank(alive, silent={"a"}, unseen={"a"}) is Standing.UNSEEN
    assert liveness.of_rank(gone, silent={"a"}, unseen={"a"}) is Standing.GONE


seconds = st.floats(0, 8)
ages = st.none() | seconds


@st.composite
def jobs(draw: st.DrawFn) -> Snapshot:
    names = [f"{host}/{number}" for host in "abc" for number in range(1, draw(st.integers(2, 3)))]
    nodes = [
        NodeState(
            name,
            name[0],
            draw(seconds),
            kernel_answers=draw(st.booleans()),
            disconnected=draw(st.integers(0, 4)) == 0,
            suspect_after=draw(st.floats(1.5, 6.0)),
            links=tuple(
                PeerLink(other, other[0], draw(ages), draw(ages), suspect=draw(st.booleans()))
                for other in names
                if other[0] != name[0]
            ),
        )
        for name in names
    ]
    ranks = [
        RankState(n, name[0], Process(7, ProcessState("S")), phase=Phase("run"))
        for n, name in enumerate(names)
    ]
    return Snapshot(50.0, tuple(nodes), tuple(ranks), world_size=len(ranks))


@given(jobs())
def test_rank_that_a_verdict_calls_silent_is_silent_for_on_silent_too(snapshot: Snapshot):
    callbacks = answers.silent_ranks(snapshot)
    for rank, standing in survey(snapshot).standings.items():
        if standing is Standing.SILENT:
            assert callbacks[str(rank)]["silent"]
