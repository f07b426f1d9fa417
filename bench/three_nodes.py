"""A job of three nodes loses one, continues with two, and gets it back: what happens when.

The nodes are network namespaces, which need root; the job is a real one with one rank per node,
under `unstuck run --recover` with a lease of 6 s (15 by default). Prints the times, the ledger and
the messages of the nodes:

    python bench/three_nodes.py
"""

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from unstuck.lab.hosts import Hosts, available
from unstuck.lab.job import LAUNCHER, PROGRAMS, Job
from unstuck.show.cli.main import main as unstuck

PATIENCE = 180.0
LOST = 2


class Show:
    """The job, and the time since its start."""

    def __init__(self, folder: Path, hosts: Hosts) -> None:
        self.folder, self.hosts = folder, hosts
        self.began = time.monotonic()
        self.jobs: list[Job] = []
        (folder / "unstuck.toml").write_text("[policy.limits]\nlease = 6\n")

    def begin(self, node: int) -> Job:
        """Start `unstuck run` on a node."""
        first = self.hosts.address(0)
        where = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{first}:29400", "--rdzv-id", "job"]
        size = ["--nnodes", "2:3", "--nproc-per-node", "1", "--max-restarts", "5"]
        conf = ["--rdzv-conf", "last_call_timeout=2", "--local-addr", self.hosts.address(node)]
        config = str(self.folder / "unstuck.toml")

        def wrap(argv: Sequence[str]) -> list[str]:
            return self.hosts.command(node, argv)

        job = Job(
            self.folder / f"{self.hosts.hostname(node)}-{len(self.jobs)}",
            [*LAUNCHER, *size, *where, *conf, str(PROGRAMS / "recovers.py")],
            options=[
                "--recover",
                "--config",
                config,
                "--hub",
                f"{first}:29600",
                "--token-file",
                str(self.folder / "token"),
            ],
            env={"CHECKPOINT": str(self.folder / "saved.pt"), "STEPS": "1000000"},
            wrap=wrap,
        )
        self.jobs.append(job)
        return job

    def say(self, text: str) -> None:
        """Print what happens, and when."""
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)

    def newest_step(self) -> list[str]:
        """Return the fields of the newest step; rank 0 may be on any node."""
        lines = [line for job in self.jobs for line in job.stdout.read_text().splitlines()]
        steps = [line.split() for line in lines if line.startswith("attempt ")]
        return max(steps, key=lambda words: float(words[5]), default=["-"] * 8)

    def until_trains_with(self, ranks: int) -> str:
        """Wait for a new step by this many ranks; describe it."""
        since = time.time()

        def look() -> bool:
            step = self.newest_step()
            return step[7] == str(ranks) and float(step[5]) > since

        wait_for(look)
        step = self.newest_step()
        return f"attempt {step[1]} step {step[3]} of {step[7]} ranks"


def wait_for(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not look():
        if time.monotonic() > deadline:
            raise SystemExit(f"nothing within {PATIENCE:g} s")
        time.sleep(0.05)


def play(show: Show) -> None:
    """Lose a node and get it back."""
    name = show.hosts.hostname(LOST)
    nodes = [show.begin(node) for node in range(3)]
    show.say(f"trains: {show.until_trains_with(3)}")
    time.sleep(3)
    last = show.newest_step()[3]
    show.hosts.cut(LOST)
    began = time.monotonic()
    show.say(f"{name} is cut off; last step: {last}")
    step = show.until_trains_with(2)
    show.say(f"next step {time.monotonic() - began:.1f} s after the cut: {step}")
    show.say(f"unstuck run on {name} ended with {nodes[LOST].wait_exit(PATIENCE)}")
    run = nodes[0].run_dir
    show.say("excluded.json: " + (run / "excluded.json").read_text().strip())
    show.hosts.heal(LOST)
    show.say(f"the network works again; unstuck run is started on {name}")
    refused = show.begin(LOST)
    show.say(f"... and ends with {refused.wait_exit(PATIENCE)}:")
    print(refused.stderr.read_text().rstrip())
    show.say(f"unstuck policy allow {name}:")
    unstuck(["policy", "allow", name, "--run-dir", str(run)])
    began = time.monotonic()
    show.begin(LOST)
    step = show.until_trains_with(3)
    show.say(f"{name} is started again; next step {time.monotonic() - began:.1f} s later: {step}")
    print("--- ledger", (run / "ledger.jsonl").read_text().rstrip(), sep="\n")
    for node in (0, LOST):
        print(f"--- stderr of {show.hosts.hostname(node)}")
        print(nodes[node].stderr.read_text().rstrip())


@click.command(help=__doc__)
def main() -> None:
    if reason := available():
        raise SystemExit(reason)
    # torch looks up the name of every peer; without a name server that should take 1 s, not 5.
    os.environ.setdefault("RES_OPTIONS", "timeout:1 attempts:1")
    with tempfile.TemporaryDirectory() as folder, Hosts(3) as hosts:
        show = Show(Path(folder), hosts)
        try:
            play(show)
        finally:
            for job in show.jobs:
                job.kill()


if __name__ == "__main__":
    main()
