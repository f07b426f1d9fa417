"""A job of three hosts loses one and goes on with two; the side that is cut off does not."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from expectations import PROGRAMS
from unstuck.lab.hosts import Hosts, available
from unstuck.lab.job import LAUNCHER, Job
from unstuck.lab.world import World
from unstuck.show.cli.main import main

pytestmark = [pytest.mark.system, pytest.mark.namespaces]

QUICK = "last_call_timeout=2"
PATIENCE = 240.0
"""Seconds; a tenth of it is enough on a machine that has nothing else to do."""
Begin = Callable[..., Job]


@pytest.fixture
def three_hosts() -> Iterator[Hosts]:
    reason = available()
    if reason:
        pytest.skip(reason)
    with Hosts(3) as hosts:
        yield hosts


@pytest.fixture
def begin(start: Callable[..., Job], three_hosts: Hosts, tmp_path: Path) -> Begin:
    """Start the node `i` of a job that needs two of three nodes."""
    config = tmp_path / "unstuck.toml"
    config.write_text("[policy.limits]\nlease = 6\n")
    env = {"CHECKPOINT": str(tmp_path / "saved.pt"), "STEPS": "1000000"}

    def go(i: int, *asked: str, script: str = "recovers.py") -> Job:
        first = three_hosts.address(0)
        where = ("--rdzv-backend", "c10d", "--rdzv-endpoint", f"{first}:29400", "--rdzv-id", "job")
        size = ("--nnodes", "2:3", "--nproc-per-node", "1", "--max-restarts", "5")
        command = (*LAUNCHER, *size, *where, "--rdzv-conf", QUICK)
        local = ("--local-addr", three_hosts.address(i), str(PROGRAMS / script))
        acts = asked or ("--recover", "--config", str(config))
        secret = ("--token-file", str(tmp_path / "token"))
        options = (*acts, "--hub", f"{first}:29600", *secret)

        def wrap(argv: Sequence[str]) -> list[str]:
            return three_hosts.command(i, argv)

        return start(*command, *local, options=options, env=env, wrap=wrap)

    return go


def sizes(jobs: list[Job]) -> list[int]:
    """Give the world size at the newest step; rank 0 may be on any node."""
    lines = [line for job in jobs for line in job.stdout.read_text().splitlines()]
    steps = [line.split() for line in lines if line.startswith("attempt ")]
    return [int(words[7]) for words in sorted(steps, key=lambda words: float(words[5]))]


def until(jobs: list[Job], size: int, patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    count = len(sizes(jobs))
    while not (found := sizes(jobs)[count:]) or found[-1] != size:
        words = "\n".join(job.words() for job in jobs)
        assert time.monotonic() < deadline, f"no step with {size} ranks\n{words}"
        time.sleep(0.2)


def stop_a_rank(jobs: list[Job], folder: Path) -> int:
    """Stop rank 1 for good, and wait until that has been told."""
    told = len(jobs[0].verdicts())
    pid = World(folder, tuple(jobs)).pid(1)
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + PATIENCE
    while len(jobs[0].verdicts()) == told:
        words = "\n".join(job.words() for job in jobs)
        assert time.monotonic() < deadline, f"nothing was said of process {pid}\n{words}"
        time.sleep(0.2)
    return pid


@pytest.mark.timeout(900)
def test_lost_node_is_left_behind_and_let_back(
    begin: Begin, three_hosts: Hosts, tmp_path: Path
) -> None:
    nodes = [begin(i) for i in range(3)]
    until(nodes, 3)
    three_hosts.cut(2)
    until(nodes[:2], 2)

    run = nodes[0].run_dir
    (excluded,) = json.loads((run / "excluded.json").read_text())
    assert excluded["host"] == three_hosts.hostname(2)
    assert nodes[2].wait_exit(PATIENCE) == 86, nodes[2].words()
    ledger = [json.loads(line)["act"] for line in (run / "ledger.jsonl").read_text().splitlines()]
    assert ledger.count("exclude") == 1

    three_hosts.heal(2)
    assert begin(2).wait_exit(PATIENCE) == 86, "an excluded node must stay away"
    stopped = stop_a_rank(nodes[:2], tmp_path)
    until(nodes[:2], 2)  # those who went on without it are watched as before
    last = nodes[0].verdicts()[-1]
    assert (last["cause"], last["culprits"][0]["pid"]) == ("process-stopped", stopped)

    assert main(["policy", "allow", three_hosts.hostname(2), "--run-dir", str(run)]) == 0
    back = begin(2)
    until([*nodes[:2], back], 3)
    for node in (*nodes[:2], back):
        node.interrupt()


@pytest.mark.timeout(600)
def test_resilient_ranks_go_on_where_the_hub_is_and_nowhere_else(
    begin: Begin, three_hosts: Hosts
) -> None:
    nodes = [begin(i, "--respawn", "2", script="stays.py") for i in range(3)]
    until(nodes, 3)
    three_hosts.cut(2)
    until(nodes[:2], 2)
    reached = len(sizes(nodes[:2]))
    while len(sizes(nodes[:2])) < reached + 300:
        time.sleep(0.2)
    # One rank alone would be enough (`min_ranks=1`), but that side has no say.
    assert 1 not in sizes(nodes), nodes[2].words()
    for node in nodes:
        node.interrupt()
