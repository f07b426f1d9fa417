"""How long a fault interrupts a job, and how many steps it loses: torchrun and unstuck.

The same training (checkpoint every ten steps, gloo) with the same faults, in turn:

    plain     torchrun --max-restarts 3, group timeout 30 s, and the variable that lets restarted
              gloo ranks find each other (without it most restarts of torch 2.13 fail)
    recover   the same command behind `unstuck run --recover`, group timeout 30 min
    hook      the same with an `@unstuck.on_stall` hook that saves a checkpoint
    quick     `recover` with a policy that gives a lost node 2 s to come back and a lease of 3 s,
              and with a rendezvous that drops it after 3 s, instead of 15 s each; only for `cut`
    resilient `@unstuck.resilient` in the script and `--respawn`: the other ranks continue

Two ranks on one host; `cut` is a job of three hosts (network namespaces, which need root) with one
rank each, one of which loses its link. The time is that from the onset to the next completed
optimizer step. Run it with a Python that has unstuck and torch installed:

    python bench/recovery.py --repeat 5
"""

import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import click

from unstuck.lab.hosts import Hosts, available
from unstuck.lab.job import LAUNCHER, PROGRAMS, UNSTUCK

PYTORCHS_OWN = 1800.0
GROUP_TIMEOUT = 30.0
FAULT_STEP = 47
CUT = "cut"
FAULTS = ("kill", "raise", "memory", "stop", "deadlock", CUT)
WAYS = ("plain", "recover", "hook", "quick", "resilient")
QUICK = """
[policy]
node-failure = "wait:2s, checkpoint:5s, exclude:1h, stop:node"
network-partition = "wait:2s, checkpoint:5s, exclude:1h, stop:node"
[policy.limits]
lease = 3
"""
ON_DEADLOCK = ("--on", "host-deadlock=dump,report,checkpoint:30s,restart:2,stop")
"""A healthy rank can look like this, so that the default rule only reports it."""
NEEDS_TIMEOUT = ("stop", "deadlock", CUT)
_STEP = re.compile(r"attempt (\d+) step (\d+) at ([\d.]+)")


class Result(NamedTuple):
    """One run: seconds from the onset to the next completed step; None: there was none."""

    fault: str
    way: str
    seconds: float | None
    lost: int


class Step(NamedTuple):
    """A completed optimizer step."""

    at: float
    attempt: int
    number: int


def watched(way: str, run: Path, *options: str) -> list[str]:
    """Return what precedes the launch command; its policy is written next to `run`."""
    if way == "plain":
        return []
    asked = ("--respawn", "3") if way == "resilient" else ("--recover", *ON_DEADLOCK)
    if way == "quick":
        policy = run.with_suffix(".toml")
        policy.write_text(QUICK)
        asked = (*asked, "--config", str(policy))
    return [*UNSTUCK, "run", "--run-dir", str(run), *asked, *options, "--"]


def commands(way: str, folder: Path, hosts: Hosts | None) -> list[list[str]]:
    """Return the launch commands of one way, one per host."""
    script = str(PROGRAMS / ("stays.py" if way == "resilient" else "recovers.py"))
    if hosts is None:
        size = ("--standalone", "--nproc-per-node", "2", "--max-restarts", "3")
        return [[*watched(way, folder / "run"), *LAUNCHER, *size, script]]
    first = hosts.address(0)
    size = ("--nnodes", "2:3", "--nproc-per-node", "1", "--max-restarts", "3")
    conf = "last_call_timeout=2"
    if way == "quick":
        conf += ",keep_alive_interval=1,keep_alive_max_attempt=3"
    where = ("--rdzv-backend", "c10d", "--rdzv-endpoint", f"{first}:29400", "--rdzv-id", "job",
             "--rdzv-conf", conf)  # fmt: skip
    return [
        hosts.command(
            i,
            [*watched(way, folder / f"run{i}", "--hub", f"{first}:29600",
                      "--token-file", str(folder / "token")), *LAUNCHER, *size,
             *where, "--local-addr", hosts.address(i), script],
        )
        for i in range(len(hosts))
    ]  # fmt: skip


def environment(fault: str, way: str, folder: Path) -> dict[str, str]:
    """Return the environment of one run."""
    own = {
        "FAULT": "" if fault == CUT else fault,
        "FAULT_RANK": "1",
        "FAULT_STEP": str(FAULT_STEP),
        "STEPS": "1000000",
        "CHECKPOINT": str(folder / "saved.pt"),
        "ONSET_FILE": str(folder / "onset"),
        "GROUP_TIMEOUT": str(GROUP_TIMEOUT if way == "plain" else PYTORCHS_OWN),
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    return {**os.environ, **own, **({"HOOK": "1"} if way == "hook" else {})}


@contextmanager
def running(
    fault: str, way: str, folder: Path, hosts: Hosts | None
) -> Generator[list[subprocess.Popen[bytes]], None, None]:
    """Start a run; end all its processes afterwards."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for i, command in enumerate(commands(way, folder, hosts)):
            with (folder / f"{i}.out").open("wb") as out, (folder / f"{i}.err").open("wb") as err:
                processes.append(
                    subprocess.Popen(
                        command,
                        stdout=out,
                        stderr=err,
                        env=environment(fault, way, folder),
                        start_new_session=True,
                    )
                )
        yield processes
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(45)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def measure(fault: str, way: str, limit: float) -> Result:
    """Run once; return the time to the next step, and how many steps were lost."""
    with contextlib.ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="unstuck-bench-"))
        folder = Path(name)
        hosts = stack.enter_context(Hosts(3)) if fault == CUT else None
        processes = stack.enter_context(running(fault, way, folder, hosts))
        started = time.time()
        if hosts is not None and _wait_for(folder, processes, 0, FAULT_STEP, started + limit):
            (folder / "onset").write_text(f"{time.time()}")
            hosts.cut(2)
        back = _wait_for(folder, processes, 1, 0, started + 2 * limit)
        if back is None or not (folder / "onset").exists():
            return Result(fault, way, None, 0)
        before = [step.number for step in _steps(folder) if step.attempt == 0]
        onset = float((folder / "onset").read_text())
        return Result(fault, way, back.at - onset, before[-1] - (back.number - 1))


def _wait_for(
    folder: Path,
    processes: list[subprocess.Popen[bytes]],
    attempt: int,
    number: int,
    deadline: float,
) -> Step | None:
    """Wait for a step with at least this number, in this attempt or a later one."""
    while time.time() < deadline and any(process.poll() is None for process in processes):
        for step in _steps(folder):
            if step.attempt >= attempt and step.number >= number:
                return step
        time.sleep(0.1)
    return None


def _steps(folder: Path) -> list[Step]:
    """Return all steps in order of time, whichever host the first rank is on."""
    texts = [file.read_text(errors="replace") for file in folder.glob("*.out")]
    found = [match for text in texts for match in _STEP.findall(text)]
    return sorted(Step(float(at), int(attempt), int(number)) for attempt, number, at in found)


def ways(fault: str, only: tuple[str, ...]) -> list[str]:
    """Return the ways to measure with a fault."""
    return [way for way in only or WAYS if way != "quick" or fault == CUT]


def line(results: list[Result]) -> str:
    """Return the row of one fault and way."""
    first = results[0]
    times = [result.seconds for result in results if result.seconds is not None]
    row = f"{first.fault:<9} {first.way:<10} {f'{len(times)}/{len(results)}':>5}"
    if not times:
        return row
    middle, lost = statistics.median(times), max(result.lost for result in results)
    row += f" {middle:>8.1f} {min(times):>8.1f} {max(times):>8.1f} {lost:>6}"
    if first.way != "plain" or first.fault not in NEEDS_TIMEOUT:
        return row
    computed = middle + PYTORCHS_OWN - GROUP_TIMEOUT
    return f"{row}   {computed:.0f} s with PyTorch's own timeout (computed)"


@click.command()
@click.option("--repeat", default=5, show_default=True, help="Runs of each combination.")
@click.option("--limit", default=120.0, show_default=True, help="Seconds before a run is given up.")
@click.option("--only", multiple=True, type=click.Choice(WAYS), help="Only this way.")
@click.option("--fault", multiple=True, type=click.Choice(FAULTS), help="Only this fault.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(
    *, repeat: int, limit: float, only: tuple[str, ...], fault: tuple[str, ...], as_json: bool
) -> None:
    """Measure the time from a fault to the next completed step."""
    why = available()
    faults = [one for one in fault or FAULTS if one != CUT or not why]
    if why and len(faults) < len(fault or FAULTS):
        print(f"{CUT} is left out: {why}", file=sys.stderr)
    results: list[Result] = []
    for number in range(repeat):
        for one in faults:
            for way in ways(one, only):
                results.append(measure(one, way, limit))
                seconds = results[-1].seconds
                outcome = "not back" if seconds is None else f"{seconds:.1f} s"
                print(f"{number + 1}/{repeat} {one} {way}: {outcome}", file=sys.stderr, flush=True)
    if as_json:
        print(json.dumps([result._asdict() for result in results]))
        return
    print("fault     way         back   median      min      max   lost")
    for one in faults:
        for way in ways(one, only):
            print(line([r for r in results if (r.fault, r.way) == (one, way)]))


if __name__ == "__main__":
    main()
