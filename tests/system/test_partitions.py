"""Three hosts with a rank each, the hub on node0: what is cut, which way, what the heal shows."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from expectations import PROGRAMS
from jobs import StartJob, jobs_in
from unstuck.lab.hosts import Hosts, available
from unstuck.lab.job import LAUNCHER, Job

pytestmark = [pytest.mark.system, pytest.mark.namespaces]

SOON = 5.0
"""Seconds from the cut to the verdict; 2.3 on an idle machine."""
MOVES = "unstuck: the job moves again"


class Cluster:
    """A healthy job over three hosts, and what is said of it after a moment that is marked."""

    def __init__(self, folder: Path) -> None:
        with ExitStack() as stack:
            self.hosts = stack.enter_context(Hosts(3))
            start = stack.enter_context(jobs_in(folder))
            self.jobs = [self._start(start, i) for i in range(3)]
            self.jobs[2].wait_onset(90)
            self._stack = stack.pop_all()
        self.closed = False
        self.mark()

    def close(self) -> None:
        """End the job and remove its hosts; no test after this one can use it."""
        self.closed = True
        self._stack.close()

    def _start(self, start: StartJob, i: int) -> Job:
        def wrap(argv: Sequence[str]) -> list[str]:
            return self.hosts.command(i, argv)

        first, own = self.hosts.address(0), self.hosts.address(i)
        size = ["--nnodes", str(len(self.hosts)), "--nproc-per-node", "1", "--rdzv-id", "job"]
        where = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{first}:29400", "--local-addr", own]
        script = str(PROGRAMS / "healthy.py")
        options = ("--hub", f"{first}:29600")
        env = {"STEPS": "100000"}
        command = [*LAUNCHER, *size, *where, script]
        return start(*command, options=options, env=env, wrap=wrap)

    def mark(self) -> None:
        """Take what was said so far as past."""
        self.marked = time.time()
        self._verdicts = len(self.jobs[0].verdicts())
        self._words = [len(job.stderr.read_text()) for job in self.jobs]

    def said(self, i: int = 0) -> str:
        """Return what was said on one host since the mark; the hub is on the first."""
        return self.jobs[i].stderr.read_text()[self._words[i] :]

    def verdicts(self) -> list[dict[str, Any]]:
        """Return the verdicts since the mark."""
        return self.jobs[0].verdicts()[self._verdicts :]

    def verdict(self) -> dict[str, Any]:
        """Wait for the first verdict, which must come soon."""
        verdict = self.wait_verdict(1, "no verdict")
        assert _unix(verdict["made_at"]) - self.marked < SOON
        return verdict

    def corrected(self) -> dict[str, Any]:
        """Heal everything and wait for the second verdict."""
        self.heal()
        return self.wait_verdict(2, "not corrected")

    def heal(self) -> None:
        for i in range(len(self.hosts)):
            self.hosts.heal(i)

    def wait_said(self, text: str, i: int = 0, timeout: float = 30) -> None:
        self.jobs[0]._until(lambda: text in self.said(i) or None, timeout, f"not said: {text}")

    def recover(self) -> None:
        """Heal everything and wait until the job trains and nothing more is said of it."""
        self.heal()
        if self.verdicts():
            self.wait_said(MOVES)
        count = -1
        while count != (count := len(self.verdicts())):
            time.sleep(2)
        self.mark()

    def wait_verdict(self, number: int, complaint: str) -> dict[str, Any]:
        """Wait for one of the verdicts since the mark, counted from 1."""

        def look() -> dict[str, Any] | None:
            return next(iter(self.verdicts()[number - 1 :]), None)

        return self.jobs[0]._until(look, 20, complaint)


@pytest.fixture(scope="module")
def kept() -> Iterator[list[Cluster]]:
    """Keep the job between two tests: none before the first, and after one that ended it."""
    reason = available()
    if reason:
        pytest.skip(reason)
    clusters: list[Cluster] = []
    yield clusters
    for cluster in clusters:
        cluster.close()


@pytest.fixture
def cluster(kept: list[Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Give a healthy job, the one of the test before if it trains again."""
    shared = kept.pop() if kept else Cluster(tmp_path_factory.mktemp("cluster"))
    yield shared
    if shared.closed:
        return
    try:
        shared.recover()
    except BaseException:
        shared.close()
        raise
    kept.append(shared)


@pytest.fixture
def fresh(kept: list[Cluster]) -> None:
    """Have the next job started anew: one that has been cut has learned to be more patient."""
    while kept:
        kept.pop().close()


def _unix(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def _named(verdict: dict[str, Any]) -> set[str]:
    return {each["host"] for each in verdict["culprits"]}


def _cut(verdict: dict[str, Any]) -> set[tuple[str, str]]:
    return {(each["source"], each["target"]) for each in verdict["cut"]}


@pytest.mark.usefixtures("fresh")
def test_hosts_that_reach_the_hub_but_not_each_other(cluster: Cluster) -> None:
    cluster.hosts.part(1, 2)
    verdict = cluster.verdict()
    assert verdict["cause"] == "network-partition"
    assert verdict["culprits"] == []
    assert _cut(verdict) == {("node1", "node2"), ("node2", "node1")}
    cluster.heal()
    cluster.wait_said(MOVES)


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
    cluster.wait_said(MOVES)
    said = cluster.said(2)
    assert "the hub at 10.77.0.1 has been out of reach for" in said
    assert "alive here and still watched: rank 2" in said


def test_host_that_only_the_hub_has_lost_is_known_to_live(cluster: Cluster) -> None:
    cluster.hosts.part(0, 2)
    verdict = cluster.verdict()
    assert verdict["cause"] == "network-partition"
    assert verdict["summary"] == "node2 is alive, but nothing from it reaches node0."
    assert verdict["culprits"] == []


@pytest.mark.usefixtures("fresh")
def test_loss_in_one_direction_is_named_with_it(cluster: Cluster) -> None:
    cluster.hosts.misdirect(1, 2)
    verdict = cluster.verdict()
    assert verdict["cause"] == "network-partition"
    assert _cut(verdict) == {("node1", "node2")}


def test_host_that_hears_nothing_is_still_heard(cluster: Cluster) -> None:
    cluster.hosts.deafen(2)
    verdict = cluster.wait_verdict(1, "no verdict")
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


@pytest.mark.usefixtures("fresh")
def test_blip_of_a_second_is_no_verdict(cluster: Cluster) -> None:
    cluster.hosts.cut(2)
    time.sleep(1)
    cluster.hosts.heal(2)
    time.sleep(5)
    assert cluster.verdicts() == [], cluster.jobs[0].words()


def test_host_of_the_hub_that_is_cut_off_says_that_it_is_the_smaller_side(
    cluster: Cluster,
) -> None:
    cluster.hosts.cut(0)
    verdict = cluster.verdict()
    assert verdict["cause"] == "network-partition"
    assert verdict["culprits"] == []
    assert "node0 with the hub is the smaller side" in verdict["summary"]
    time.sleep(2)
    for i in (1, 2):
        assert "has been out of reach for" in cluster.said(i)

    corrected = cluster.corrected()
    assert corrected["confidence"] == "certain"
    assert corrected["summary"].startswith("node0 was cut off from node1 and node2")
    assert _named(corrected) == {"node0"}


def test_host_that_died_is_a_node_failure(cluster: Cluster) -> None:
    cluster.hosts.cut(2)
    cluster.jobs[2].kill()
    verdict = cluster.verdict()
    assert (verdict["cause"], verdict["confidence"]) == ("node-failure", "likely")
    assert _named(verdict) == {"node2"}
    cluster.close()
