"""A dead node, a cut network, one direction only: told apart by who hears whom."""

from itertools import permutations

import pytest
from msgspec.structs import replace

from scenes import Scene, culprits, job, silent, verdict_of
from unstuck.diagnose.diagnose import diagnose
from unstuck.explain.advice.advice import advise
from unstuck.model.host import PeerLink
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Cause, Confidence, CutLink, Verdict

FINE, QUIET = 0.2, 2.5


class Net:
    """A job over several hosts with two ranks each, all stuck in one collective; host0 has the hub.

    `lost` are directions in which nothing arrives any more; `never` never worked.
    """

    def __init__(self, hosts: int = 3, stalled: float = 2.2) -> None:
        self.scene = job(2 * hosts, per_host=2)
        self.hosts = [f"host{i}" for i in range(hosts)]
        for rank in range(2 * hosts):
            self.scene.enter(rank, stalled=stalled)
        self.lost: set[tuple[str, str]] = set()
        self.never: set[frozenset[str]] = set()
        self.quiet = QUIET

    def cut(self, one: str, other: str) -> "Net":
        self.lost |= {(one, other), (other, one)}
        return self

    def isolate(self, host: str) -> "Net":
        for other in self.hosts:
            if other != host:
                self.cut(host, other)
        return self

    def silent(self, *hosts: str, seconds: float = 2.4) -> "Net":
        for host in hosts:
            self.scene.node(host, silent_for=seconds)
        return self

    def scene_with_links(self) -> Scene:
        for host in self.hosts:
            links = [self._link(host, other) for other in self.hosts if other != host]
            self.scene.node(host, links=tuple(links))
        return self.scene

    def snapshot(self) -> Snapshot:
        return replace(self.scene_with_links().snapshot(), hub="host0")

    def verdict(self) -> Verdict | None:
        return diagnose(self.snapshot()).verdict

    def must(self) -> Verdict:
        verdict = self.verdict()
        assert verdict is not None
        assert not {one.rank for one in verdict.culprits} & set(verdict.victims)
        return verdict

    def _link(self, host: str, other: str) -> PeerLink:
        node = self.scene.nodes[other].node
        if frozenset((host, other)) in self.never:
            return PeerLink(node, other)
        heard = self.quiet if (other, host) in self.lost else FINE
        both = {(other, host), (host, other)} & self.lost
        return PeerLink(node, other, heard, self.quiet if both else FINE, 0.001)


def alternatives(verdict: Verdict) -> list[Cause]:
    return [one.cause for one in verdict.alternatives]


def test_node_that_nobody_hears_is_a_node_failure_with_the_partition_as_alternative():
    verdict = Net().isolate("host2").silent("host2").must()
    assert (verdict.cause, verdict.confidence) == (Cause.NODE_FAILURE, Confidence.LIKELY)
    assert culprits(verdict) == [4, 5]
    assert alternatives(verdict) == [Cause.NETWORK_PARTITION]
    assert "neither the hub nor host1 hears host2" in verdict.because
    assert verdict.until == ""


def test_node_that_a_peer_still_hears_is_no_dead_node():
    verdict = Net().cut("host0", "host2").silent("host2").must()
    assert (verdict.cause, verdict.confidence) == (Cause.NETWORK_PARTITION, Confidence.LIKELY)
    assert verdict.culprits == ()
    assert verdict.summary == "host2 is alive, but nothing from it reaches host0."
    assert [(one.source, one.target) for one in verdict.cut] == [("host2", "host0")]
    assert "host1 still hears it" in verdict.because


def test_node_that_is_heard_but_that_nothing_reaches_is_one_way():
    net = Net().silent("host2")
    net.lost = {("host0", "host2"), ("host1", "host2")}
    verdict = net.must()
    assert verdict.cause is Cause.NETWORK_PARTITION
    assert verdict.summary == (
        "What host0 and host1 send does not reach host2, although host2 can still be heard there."
    )
    assert culprits(verdict) == [4, 5]
    assert {(one.source, one.target) for one in verdict.cut} == net.lost


def deaf(unanswered: float, other: float) -> Net:
    """Nothing reaches host2, whose frame of a second later was the last to arrive, 1.4 s ago."""
    net = Net().silent("host2", seconds=1.4)
    net.scene_with_links()
    for host, seconds in (("host0", unanswered), ("host1", other)):
        links = [replace(link, heard_for=FINE) for link in net.scene.nodes[host].links]
        told = [replace(one, answered_for=seconds) if one.host == "host2" else one for one in links]
        net.scene.node(host, links=tuple(told))
    own = [replace(link, heard_for=0.95) for link in net.scene.nodes["host2"].links]
    net.scene.node("host2", links=tuple(own))
    return net


def test_frame_that_still_arrives_from_a_node_that_nothing_reaches_does_not_delay_the_verdict():
    verdict = verdict_of(deaf(2.2, 2.1).scene)
    assert verdict.cause is Cause.NETWORK_PARTITION
    assert culprits(verdict) == [4, 5]
    assert set(verdict.cut[:2]) == {
        CutLink("host0", "host2", 2.2),
        CutLink("host1", "host2", 2.1),
    }


def test_node_is_not_judged_while_only_one_of_those_that_hear_it_misses_its_answers():
    assert diagnose(deaf(2.2, 1.6).scene.snapshot()).verdict is None


def test_node_is_not_judged_while_the_word_of_one_that_hears_it_is_old():
    net = deaf(2.2, 1.35)
    net.scene.node("host1", silent_for=0.99)
    assert diagnose(net.scene.snapshot()).verdict is None


def test_node_that_heard_nobody_for_a_second_is_not_silent_if_it_answers():
    assert diagnose(deaf(FINE, FINE).scene.snapshot()).verdict is None


def test_two_hosts_that_both_reach_the_hub_but_not_each_other():
    verdict = Net().cut("host1", "host2").must()
    assert (verdict.cause, verdict.confidence) == (Cause.NETWORK_PARTITION, Confidence.LIKELY)
    assert verdict.culprits == ()
    assert verdict.victims == (0, 1, 2, 3, 4, 5)
    assert verdict.summary == "host1 and host2 cannot reach each other, while both reach the hub."
    assert alternatives(verdict) == [Cause.TRANSPORT_STALL]
    assert set(verdict.cut) == {CutLink("host1", "host2", QUIET), CutLink("host2", "host1", QUIET)}


def test_one_way_loss_between_two_hosts_is_named_with_its_direction():
    net = Net()
    net.lost = {("host1", "host2")}
    verdict = net.must()
    assert verdict.cause is Cause.NETWORK_PARTITION
    assert verdict.summary == "What host1 sends does not reach host2, while both reach the hub."
    assert verdict.cut == (CutLink("host1", "host2", QUIET),)
    assert any("only one direction is cut" in item.text for item in verdict.evidence)


def test_host_that_was_silent_itself_until_just_now_is_no_cut_link():
    net = Net(stalled=10.0).cut("host1", "host2")
    assert net.must().cause is Cause.NETWORK_PARTITION
    net.scene.node("host2", steady_for=0.3)
    assert net.must().cause is Cause.TRANSPORT_STALL


def test_cut_that_no_wait_spans_is_no_incident():
    scene = job(6, {"a": (0, 1, 2, 3), "b": (4, 5)}, per_host=2)
    net = Net()
    net.scene = scene
    assert net.cut("host1", "host2").verdict() is None

    for rank in range(4):
        scene.enter(rank, "a", stalled=5.0)
    verdict = net.must()
    assert verdict.cause is Cause.TRANSPORT_STALL


def test_links_that_are_fine_leave_a_transport_stall():
    verdict = Net(stalled=10.0).must()
    assert verdict.cause is Cause.TRANSPORT_STALL


def test_probes_that_never_passed_prove_nothing():
    net = Net(stalled=10.0)
    net.never = {frozenset(pair) for pair in permutations(net.hosts, 2)}
    assert net.must().cause is Cause.TRANSPORT_STALL

    net.silent("host2", seconds=4.0)
    verdict = net.must()
    assert (verdict.cause, verdict.confidence) == (Cause.NODE_FAILURE, Confidence.POSSIBLE)


def test_only_the_hub_as_witness_leaves_it_open():
    verdict = Net(2).isolate("host1").silent("host1").must()
    assert (verdict.cause, verdict.confidence) == (Cause.NODE_FAILURE, Confidence.POSSIBLE)
    assert alternatives(verdict) == [Cause.NETWORK_PARTITION]


def test_blip_of_a_second_is_no_verdict():
    net = Net(stalled=1.6).isolate("host2").silent("host2", seconds=2.4)
    net.quiet = 1.3
    assert net.verdict() is None


def test_peers_that_have_not_made_up_their_mind_are_waited_for():
    net = Net(stalled=3.5).isolate("host2").silent("host2", seconds=3.5)
    net.quiet = 1.2
    assert net.verdict() is None
    net.silent("host2", seconds=4.1)
    assert net.must().cause is Cause.NODE_FAILURE


def test_silence_that_peers_confirm_counts_sooner():
    assert Net().silent("host2", seconds=2.4).verdict() is None
    assert Net().isolate("host2").silent("host2", seconds=2.4).verdict() is not None


@pytest.mark.parametrize(
    ("hosts", "lost", "named", "words"),
    [
        (5, ("host3", "host4"), [6, 7, 8, 9], "they are the smaller side"),
        (4, ("host2", "host3"), [], "so it is not known which one is cut off"),
        (3, ("host1", "host2"), [], "host0 with the hub is the smaller side"),
    ],
)
def test_several_nodes_lost_at_once_are_one_cut(
    hosts: int, lost: tuple[str, ...], named: list[int], words: str
):
    net = Net(hosts).silent(*lost)
    for host in lost:
        for other in net.hosts:
            if other not in lost:
                net.cut(host, other)
    verdict = net.must()
    assert (verdict.cause, verdict.confidence) == (Cause.NETWORK_PARTITION, Confidence.LIKELY)
    assert culprits(verdict) == named
    assert words in verdict.summary
    assert alternatives(verdict) == [Cause.NODE_FAILURE]


def test_nodes_lost_one_after_the_other_are_not_one_cut():
    net = Net(5, stalled=30.0).isolate("host3").isolate("host4")
    verdict = net.silent("host3", seconds=30.0).silent("host4", seconds=3.0).must()
    assert verdict.cause is Cause.NODE_FAILURE
    assert culprits(verdict) == [6, 7, 8, 9]


def test_node_that_answers_probes_but_sends_no_reports_is_not_called_dead():
    verdict = Net(stalled=5.0).silent("host2", seconds=4.5).must()
    assert (verdict.cause, verdict.confidence) == (Cause.NETWORK_PARTITION, Confidence.POSSIBLE)
    assert verdict.culprits == ()
    assert "large packets" in verdict.alternatives[0].decide_by


def test_host_whose_kernel_answers_is_neither_dead_nor_cut_off():
    net = Net().isolate("host2").silent("host2")
    net.scene.node("host2", kernel_answers=True)
    verdict = net.must()
    assert (verdict.cause, verdict.confidence) == (Cause.PROCESS_STOPPED, Confidence.POSSIBLE)
    assert culprits(verdict) == [4, 5]
    assert "neither the node nor the network is down" in verdict.because


def test_agent_that_died_is_no_cut_link_and_no_dead_node():
    net = Net(stalled=10.0).isolate("host2")
    net.scene.node("host2", disconnected=True, silent_for=9.0)
    for rank in (4, 5):
        net.scene.change(rank, unobserved="its agent died")
    verdict = net.must()
    assert (verdict.cause, verdict.culprits) == (Cause.TRANSPORT_STALL, ())


def test_rank_that_is_elsewhere_is_named_although_a_link_is_cut():
    net = Net(stalled=10.0).cut("host1", "host2")
    scene = job(6, per_host=2)
    for rank in range(5):
        scene.enter(rank)
    net.scene = scene.sleep(5)
    assert culprits(net.must()) == [5]


def test_deaths_behind_a_silent_node_wait_for_its_peers():
    net = Net(stalled=3.5).isolate("host2").silent("host2", seconds=2.4)
    net.quiet = 1.2
    for rank in range(4):
        net.scene.fail(rank, "RuntimeError", "Connection timed out", 1.8)
    assert net.verdict() is None
    net.quiet = QUIET
    verdict = net.must()
    assert (verdict.cause, culprits(verdict)) == (Cause.NODE_FAILURE, [4, 5])


# --- afterwards


def back(net: Net, host: str = "host2", **fields: object) -> Net:
    told: dict[str, object] = {"cut_off_for": 7.2, "unheard": ("host0", "host1")}
    net.scene.node(host, **(told | fields))
    return net


def test_node_that_comes_back_with_its_story_was_cut_off_and_has_not_failed():
    verdict = back(Net()).must()
    assert (verdict.cause, verdict.confidence) == (Cause.NETWORK_PARTITION, Confidence.CERTAIN)
    assert verdict.until
    assert verdict.since < verdict.until
    assert culprits(verdict) == [4, 5]
    assert "host2 was cut off from host0 for 7.2 s" in verdict.summary
    assert "ranks 4,5 kept running there" in verdict.because
    assert {(one.source, one.target) for one in verdict.cut} == {
        ("host0", "host2"),
        ("host2", "host0"),
    }


def test_job_that_moves_again_when_the_story_comes_is_not_said_to_wait():
    waits = back(Net(stalled=7.0)).must()
    assert waits.victims == (0, 1, 2, 3)
    moves = back(Net(stalled=0.1)).must()
    assert moves.victims == ()
    assert moves.summary.endswith("It works again. The job continues.")
    assert advise(moves).do[0].startswith("nothing: the job continues")


def test_story_tells_that_only_one_way_was_lost():
    verdict = back(Net(), heard=("host0", "host1"), unheard=()).must()
    assert verdict.cut == (CutLink("host2", "host0", 7.2),)
    assert any("only what it sent was lost" in item.text for item in verdict.evidence)


def test_story_waits_until_all_are_back():
    net = back(Net(), "host1").isolate("host2").silent("host2", seconds=9.0)
    assert net.must().until == ""


def test_host_of_the_hub_is_named_when_the_others_heard_each_other_and_not_it():
    net = back(Net(), "host1", heard=("host2",), unheard=("host0",))
    verdict = back(net, "host2", heard=("host1",), unheard=("host0",)).must()
    assert culprits(verdict) == [0, 1]
    assert verdict.summary.startswith("host0 was cut off from host1 and host2 for 7.2 s")
    assert "the others heard each other throughout" in verdict.summary
    assert advise(verdict).dont[0].startswith("do not drain host0:")


def test_nobody_is_named_when_most_hosts_were_cut_off():
    net = back(back(Net(), "host1"))
    verdict = net.must()
    assert verdict.culprits == ()
    assert "host1 and host2 were cut off from host0" in verdict.summary


def test_story_explains_ranks_that_gave_up_but_not_one_that_crashed():
    net = back(Net())
    net.scene.fail(0, "RuntimeError", "Timed out waiting 5000ms for recv operation", 3.0)
    assert net.must().until
    net.scene.fail(1, "ValueError", "bad batch", 3.5)
    assert net.must().cause is Cause.PROCESS_CRASH


def test_advice_names_both_ends_and_changes_after_the_heal():
    during = advise(Net().cut("host1", "host2").must())
    assert "`ping -c 3 host1`" in during.do[0]
    assert "`ping -c 3 host2`" in during.do[0]
    assert any("raise the timeout" in item for item in during.dont)
    after = advise(back(Net()).must())
    assert "7 s more" in after.do[0]
    assert after.dont[0] == "do not drain host2: its network failed, not the node"


def test_two_nodes_without_probes_stay_as_they_were():
    scene = job(4, per_host=2)
    scene.enter(0, stalled=5).enter(1, stalled=5).node("host1", silent_for=2.5)
    assert silent(scene)
    assert verdict_of(scene.node("host1", silent_for=4.0)).cause is Cause.NODE_FAILURE
