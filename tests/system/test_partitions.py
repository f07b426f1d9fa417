"""Three hosts with a rank each, the hub on node0: what is cut, which way, what the heal shows."""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import pytest

from expectations import PROGRAMS
from unstuck.lab.hosts import Hosts, available
from unstuck.lab.job import LAUNCHER, Job

pytestmark = [pytest.mark.system, pytest.mark.namespaces]

SOON = 5.0
"""Seconds from the cut to the verdict; 2.3 on an idle machine."""


class Cluster:
    """A healthy job over three hosts, and what its hub says after a moment that is marked."""

    def __init__(self, start: Callable[..., Job], hosts: Hosts) -> None:
        self.hosts = hosts
        self.jobs = [self._start(start, i) for i in range(len(hosts))]
        self.marked = 0.0

    def _start(self, start: Callable[..., Job], i: int) -> Job:
        def wrap(argv: Sequence[str]) -> list[str]:
            return self.hosts.command(i, argv)

        first, own = self.hosts.address(0), self.hosts.address(i)
        size = ["--nnodes", str(len(self.hosts)), "--nproc-per-node", "1", "--rdzv-id", "job"]
        where = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{first}:29400", "--local-addr", own]
        script = str(PROGRAMS / "healthy.py")
        options = ("--hub", f"{first}:29600")
        env = {"STEPS": "1000"}
        command = [*LAUNCHER, *size, *where, script]
        return start(*command, options=options, env=env, wrap=wrap)

    def until_it_moves(self) -> "Cluster":
        self.jobs[2].wait_onset(90)
        self.marked = time.time()
        return self

    def verdict(self) -> dict[str, Any]:
        """Wait for the first verdict, which must come soon."""
        verdict = self.jobs[0].wait_verdict(20)
        assert _unix(verdict["made_at"]) - self.marked < SOON
        return verdict

    def corrected(self) -> dict[str, Any]:
        """Heal everything and wait for the second verdict."""
        for i in range(len(self.hosts)):
            self.hosts.heal(i)
        self.jobs[0]._until(lambda: len(self.jobs[0].verdicts()) > 1 or None, 20, "not corrected")
        return self.jobs[0].verdicts()[1]

    def hub_says(self, text: str, timeout: float = 30) -> None:
        stderr = self.jobs[0].stderr
        self.jobs[0]._until(
            lambda: text in stderr.read_text() or None, timeout, f"not said: {text}"
        )


@pytest.fixture
def cluster(start: Callable[..., Job]) -> Iterator[Cluster]:
    reason = available()
    if reason:
        pytest.skip(reason)
    with Hosts(3) as hosts:
        yield Cluster(start, hosts).until_it_moves()


def _unix(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def _named(verdict: dict[str, Any]) -> set[str]:
    return {each["host"] for each in verdict["culprits"]}


def _cut(verdict: dict[str, Any]) -> set[tuple[str, str]]:
    return {(each["source"], each["target"]) for each in verdict["cut"]}


def test_host_that_is_cut_off_looks_dead_until_it_is_back(cluster: Cluster) -> None:
    cluster.hosts.cut(2)
    verdict = cluster.verdict()
    assert (verdict["cause"], verdict["confidence"]) == ("node-failure", "likely")
    assert _named(verdict) == {"node2"}
    assert [each["cause"] for each in verdict["alternatives"]] == ["network-partition"]
    time.sleep(2)  # its agent needs as long to be sure that it is the one cut off

    corrected = cluster.corrected()
    assert (corrected["cause"], corrected["confidence"]) == ("network-partition", "certain")
    assert _unix(corrected["since"]) == pytest.approx(cluster.marked, abs=1.5)
    assert corrected["until"]
    cluster.hub_says("unstuck: the job moves again")
    said = cluster.jobs[2].stderr.read_text()
    assert "the hub at 10.77.0.1 has been out of reach for" in said
    assert "alive here and watched on: rank 2" in said


def test_host_that_died_is_a_node_failure(cluster: Cluster) -> None:
    cluster.hosts.cut(2)
    cluster.jobs[2].kill()
    verdict = cluster.verdict()
    assert (verdict["cause"], verdict["confidence"]) == ("node-failure", "likely")
    assert _named(verdict) == {"node2"}


def test_hosts_that_reach_the_hub_but_not_each_other(cluster: Cluster) -> None:
    cluster.hosts.part(1, 2)
    verdict = cluster.verdict()
    assert verdict["cause"] == "network-partition"
    assert verdict["culprits"] == []
    assert _cut(verdict) == {("node1", "node2"), ("node2", "node1")}
    for i in (1, 2):
        cluster.hosts.heal(i)
    cluster.hub_says("unstuck: the job moves again")


def test_host_that_only_the_hub_has_lost_is_known_to_live(cluster: Cluster) -> None:
    cluster.hosts.part(0, 2)
    verdict = cluster.verdict()
    assert verdict["cause"] == "network-partition"
    assert verdict["summary"] == "node2 lives, but nothing from it reaches node0."
    assert verdict["culprits"] == []


def test_loss_in_one_direction_is_named_with_it(cluster: Cluster) -> None:
    cluster.hosts.misdirect(1, 2)
    verdict = cluster.verdict()
    assert verdict["cause"] == "network-partition"
    assert _cut(verdict) == {("node1", "node2")}


def test_host_that_hears_nothing_is_still_heard(cluster: Cluster) -> None:
    cluster.hosts.deafen(2)
    verdict = cluster.jobs[0].wait_verdict(20)
    assert verdict["cause"] == "network-partition"
    assert _cut(verdict) >= {("node0", "node2"), ("node1", "node2")}
    assert _named(verdict) == {"node2"}


def test_host_that_nobody_hears_tells_later_that_it_heard_the_others(cluster: Cluster) -> None:
    cluster.hosts.mute(2)
    assert cluster.verdict()["cause"] == "node-failure"
    time.sleep(2)

    corrected = cluster.corrected()
    assert corrected["cause"] == "network-partition"
    assert _cut(corrected) == {("node2", "node0")}
    assert any("only what it sent was lost" in each["text"] for each in corrected["evidence"])


def test_host_of_the_hub_that_is_cut_off_says_that_it_is_the_smaller_side(
    cluster: Cluster,
) -> None:
    cluster.hosts.cut(0)
    verdict = cluster.verdict()
    assert verdict["cause"] == "network-partition"
    assert verdict["culprits"] == []
    assert "node0 with the hub is the smaller side" in verdict["summary"]
    time.sleep(2)
    for job in cluster.jobs[1:]:
        assert "has been out of reach for" in job.stderr.read_text()

    corrected = cluster.corrected()
    assert corrected["confidence"] == "certain"
    assert corrected["summary"].startswith("node0 was cut off from node1 and node2")
    assert _named(corrected) == {"node0"}


def test_blip_of_a_second_is_no_verdict(cluster: Cluster) -> None:
    cluster.hosts.cut(2)
    time.sleep(1)
    cluster.hosts.heal(2)
    time.sleep(5)
    assert cluster.jobs[0].verdicts() == [], cluster.jobs[0].words()
