"""How soon a silent rank is noticed, and how often a live one is suspected, on a busy machine.

    python bench/heartbeat.py --seconds 600 --repeat 5

Three designs, each as a separate torchrun job, with every core kept busy:

- `unstuck`: `unstuck.watch()` with `on_silent`, during a loop of small all-reduces
- `article`: the heartbeat of the article, a ring of send and recv on the process group, with a
  timeout of 3 s on the group (the article passes it to a function that does not use it)
- `barrier`: `torch.distributed.monitored_barrier(timeout=3 s)` once a second

All three first run side by side for `--seconds` without a fault: every suspicion is then false.
The CPU time of unstuck's agent and hub during that time is printed. Then, one design at a time, a
rank is stopped (SIGSTOP), and the time until the first and the last of the others know is measured.
This is repeated; where a design kills its process group, with a new job.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

LIMIT = 3.0
DESIGNS = ("unstuck", "article", "barrier")
WATCHERS = {"unstuck.collect.agent.agent": "agent", "unstuck.pipelines.live": "hub"}
BURN = "while True: pass"


# --- in the ranks


def note(event: str, **fields: Any) -> None:
    """Append a line to the file of all ranks; small writes are atomic."""
    line = {"at": time.time(), "rank": int(os.environ["RANK"]), "event": event, **fields}
    with Path(os.environ["EVENTS"]).open("a") as file:
        file.write(json.dumps(line) + "\n")


def rank_program(design: str) -> None:
    import torch.distributed as dist

    if design == "unstuck":
        import unstuck

        unstuck.watch(
            run_dir=os.environ["EVENTS"] + ".run",
            on_silent=lambda peer: note("silent", peer=peer.rank, state=peer.state),
            on_back=lambda peer: note("back", peer=peer.rank),
        )
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", timeout=timedelta(seconds=LIMIT))
    note("ready", pid=os.getpid())
    try:
        {"unstuck": train, "article": ring, "barrier": barrier}[design]()
    except RuntimeError as error:
        note("silent", peer=-1, state=str(error)[:200])
        # What is left of the group can neither be used nor cleaned up properly.
        os._exit(0)


def train() -> None:
    """Stand in for a training; the heartbeat runs in the background."""
    import torch
    import torch.distributed as dist

    while True:
        dist.all_reduce(torch.ones(1))
        time.sleep(0.05)


def ring() -> None:
    """Run the article's loop, with the import and the tensors that it lacks."""
    import torch
    import torch.distributed as dist

    rank, world = dist.get_rank(), dist.get_world_size()
    while True:
        dist.send(torch.tensor([1]), dst=(rank + 1) % world)
        dist.recv(torch.tensor([0]), src=(rank - 1 + world) % world)
        time.sleep(1)


def barrier() -> None:
    import torch.distributed as dist

    while True:
        dist.monitored_barrier(timeout=timedelta(seconds=LIMIT), wait_all_ranks=True)
        time.sleep(1)


# --- outside the ranks


class Job:
    """One job of a design, in its own directory."""

    def __init__(self, design: str, ranks: int) -> None:
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._events = Path(self.folder.name) / "events"
        self._events.touch()
        self._ranks = ranks
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node", str(ranks), __file__, "--as-rank", design]
        self._log = (Path(self.folder.name) / "log").open("wb")
        env = {**os.environ, "EVENTS": str(self._events), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, env=env, stdout=self._log, stderr=self._log, start_new_session=True
        )
        self.pids = {one["rank"]: one["pid"] for one in self.wait("ready", ranks, 120)}

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of one kind that the ranks noted."""
        lines = self._events.read_text().splitlines()
        return [one for one in map(json.loads, lines) if one["event"] == kind]

    def wait(self, kind: str, count: int, timeout: float) -> list[dict[str, Any]]:
        """Wait for this many events; return those there are by then."""
        deadline = time.monotonic() + timeout
        while len(found := self.events(kind)) < count and time.monotonic() < deadline:
            time.sleep(0.01)
        return found

    def end(self) -> None:
        """End the job; its agent and hub end by themselves."""
        for pid in self.pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._log.close()
        self.folder.cleanup()


def detect(job: Job, victim: int, ranks: int) -> tuple[float | None, float | None, int]:
    """Stop a rank; return when the first and the last of the others knew, and how many did."""
    before = len(job.events("silent"))
    stopped = time.time()
    with contextlib.suppress(ProcessLookupError):
        os.kill(job.pids[victim], signal.SIGSTOP)
    job.wait("silent", before + ranks - 1, 15)
    knew = sorted(one["at"] - stopped for one in job.events("silent")[before:])
    with contextlib.suppress(ProcessLookupError):
        os.kill(job.pids[victim], signal.SIGCONT)
    return (knew[0], knew[-1], len(knew)) if knew else (None, None, 0)


def live(jobs: dict[str, Job], options: argparse.Namespace) -> dict[str, int]:
    """Let all jobs run without a fault; return how often each suspected a rank.

    A design whose group breaks as a result gets a new job.
    """
    suspected = dict.fromkeys(jobs, 0)
    deadline = time.monotonic() + options.seconds
    while time.monotonic() < deadline:
        time.sleep(1)
        for design, job in jobs.items():
            if job.process.poll() is not None:
                suspected[design] += len(job.events("silent"))
                job.end()
                jobs[design] = Job(design, options.ranks)
    return {
        design: count + len(jobs[design].events("silent")) for design, count in suspected.items()
    }


def stop_in_turn(
    design: str, jobs: dict[str, Job], options: argparse.Namespace
) -> list[tuple[float | None, float | None, int]]:
    """Stop one rank after another; where that breaks the group, with a new job each time."""
    ranks = options.ranks
    found: list[tuple[float | None, float | None, int]] = []
    for turn in range(options.repeat):
        if (turn and design != "unstuck") or jobs[design].process.poll() is not None:
            jobs[design].end()
            jobs[design] = Job(design, ranks)
            time.sleep(3)
        found.append(detect(jobs[design], 1 + turn % (ranks - 1), ranks))
        if design == "unstuck":
            jobs[design].wait("back", (turn + 1) * (ranks - 1), 15)
            time.sleep(2)
    return found


def watchers(job: Job) -> dict[str, float]:
    """Return the CPU seconds that the agent and the hub of a job have used."""
    used: dict[str, float] = {}
    run_dir = str(Path(job.folder.name) / "events.run")
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_text().split("\0")
            name = next((WATCHERS[word] for word in command if word in WATCHERS), None)
            if name is None or not any(word.startswith(run_dir) for word in command):
                continue
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            ticks = int(fields[11]) + int(fields[12])
            used[name] = ticks / os.sysconf("SC_CLK_TCK")
    return used


def show(
    design: str,
    suspected: int,
    found: list[tuple[float | None, float | None, int]],
    options: argparse.Namespace,
) -> None:
    def span(values: list[float]) -> str:
        if not values:
            return "never"
        return f"{statistics.median(values):.2f} s ({min(values):.2f} to {max(values):.2f})"

    others = options.ranks - 1
    firsts = [first for first, _, _ in found if first is not None]
    lasts = [last for _, last, count in found if last is not None and count >= others]
    print(f"{design:8s} false suspicions in {options.seconds:g} s: {suspected}")
    print(f"         first of the others knows after {span(firsts)}")
    print(f"         all of them after {span(lasts)}, in {len(lasts)} of {options.repeat}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument(
        "--busy", type=int, default=os.cpu_count(), help="processes that keep cores busy"
    )
    parser.add_argument("--design", choices=DESIGNS, action="append")
    parser.add_argument("--as-rank", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_rank:
        rank_program(options.as_rank)
        return
    jobs: dict[str, Job] = {}
    burners = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(options.busy)]
    try:
        jobs.update({design: Job(design, options.ranks) for design in options.design or DESIGNS})
        before, began = watchers(jobs["unstuck"]) if "unstuck" in jobs else {}, time.monotonic()
        suspected = live(jobs, options)
        share = 100 / (time.monotonic() - began)
        for name, used in (watchers(jobs["unstuck"]) if "unstuck" in jobs else {}).items():
            print(f"{name} of unstuck: {(used - before.get(name, 0)) * share:.2f} % of one core")
        for design in jobs:
            show(design, suspected[design], stop_in_turn(design, jobs, options), options)
    finally:
        for job in jobs.values():
            job.end()
        for burner in burners:
            burner.kill()
            burner.wait()


if __name__ == "__main__":
    main()
