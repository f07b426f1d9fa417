"""Run a scenario once: real torchrun, real `unstuck run`, a proven fault, and no trace of it."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from unstuck.errors import JobOverdueError, LabError
from unstuck.lab import keeper, owner
from unstuck.lab.cgroups import Cgroup
from unstuck.lab.clock import Clock
from unstuck.lab.faults import Fired, Injection, Inside
from unstuck.lab.hosts import Hosts
from unstuck.lab.interrupts import Interrupts
from unstuck.lab.job import LAUNCH, Job, node_torchrun, verdicts
from unstuck.lab.run import Blamed, Run
from unstuck.lab.scenario import Scenario
from unstuck.lab.score import says_after
from unstuck.lab.world import World

T = TypeVar("T")
START_LIMIT = 120.0
"""For the job to start and reach the step of the fault."""
PROOF_LIMIT = 90.0
END_LIMIT = 15.0
HUB_PORT = 29600
Say = Callable[[str], None]


def need_torch() -> None:
    """Fail with what to type when torch is not there.

    Raises:
        LabError: it is not installed.
    """
    if find_spec("torch") is None:
        raise LabError(
            "torch is not installed, and the lab runs real training jobs",
            hint="pip install torch, into the environment of unstuck",
        )


def observe(
    scenario: Scenario, number: int, interrupts: Interrupts, say: Say, keep: Path | None = None
) -> Run:
    """Run a scenario once and give what unstuck said of it; nothing of the job is left.

    Args:
        scenario: what to run.
        number: which of several runs it is.
        interrupts: held back while something is made or undone.
        say: told what is being waited for.
        keep: where to keep the run's files; without it they are removed.
    """
    if reason := scenario.why_not():
        return Run(scenario.name, number, skipped=reason)
    keeper.start()
    seen: dict[str, Any] = {}
    kept = _kept_folder(keep, f"{scenario.name}-{number}") if keep else None
    with ExitStack() as ears, ExitStack() as resources:
        try:
            with interrupts.held():
                folder = kept or _borrowed_folder(resources)
                end = _end_patiently if kept else _end
                world = _start(scenario, folder, resources, end)
            seen = _Observation(scenario, world, resources, interrupts, say).make()
        except (LabError, OSError, subprocess.CalledProcessError) as error:
            seen = {"trouble": _one_line(error)}
        finally:
            ears.enter_context(interrupts.held())
            say("cleaning up")
    return Run(scenario.name, number, **seen, folder=str(kept or ""))


def _one_line(error: Exception) -> str:
    """Say in one line what kept the lab itself from working."""
    if isinstance(error, subprocess.CalledProcessError):
        return f"{' '.join(error.cmd)}: {str(error.stderr).strip()}"
    return (str(error).splitlines() or [type(error).__name__])[0]


def _kept_folder(below: Path, name: str) -> Path:
    """Choose a folder that no earlier session has used."""
    folder = below.resolve() / name
    while folder.exists():
        folder = folder.with_name(folder.name + "x")
    return folder


def _borrowed_folder(resources: ExitStack) -> Path:
    folder = owner.workplace()
    resources.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _start(
    scenario: Scenario, folder: Path, resources: ExitStack, end: Callable[[list[Job]], None]
) -> World:
    hosts = resources.enter_context(Hosts(scenario.hosts)) if scenario.hosts > 1 else None
    group = scenario.fault.enclose()
    if group is not None:
        resources.callback(group.close)
    jobs: list[Job] = []
    resources.callback(end, jobs)
    starts = (_start_one(scenario, folder, hosts, group, i) for i in range(scenario.hosts))
    jobs.extend(starts)
    return World(folder, tuple(jobs), hosts, group)


def _start_one(
    scenario: Scenario, folder: Path, hosts: Hosts | None, group: Cgroup | None, i: int
) -> Job:
    env = {"FAULT_STEP": str(scenario.step), "OMP_NUM_THREADS": "1", **scenario.env}
    if not isinstance(scenario.fault, Inside):  # else the program knows best which of its ranks
        env["FAULT_RANK"] = str(scenario.rank)
    end = (*scenario.torchrun, str(scenario.program))
    if hosts is None:
        size = ("--standalone", "--nproc-per-node", str(scenario.ranks))
        wrap = list[str] if group is None else group.command
        launcher = (scenario.python or sys.executable, *LAUNCH)
        return Job(folder, (*launcher, *size, *end), env=env, wrap=wrap)
    share = scenario.ranks // len(hosts)
    command = node_torchrun(hosts.address(0), hosts.address(i), nodes=len(hosts), ranks=share)
    hub = ("--hub", f"{hosts.address(0)}:{HUB_PORT}")
    wrap = partial(hosts.command, i)
    return Job(folder / f"node{i}", (*command, *end), options=hub, env=env, wrap=wrap)


def _end(jobs: list[Job]) -> None:
    """Kill the job: once it is judged nothing more is learned from it."""
    for job in jobs:
        job.kill()


def _end_patiently(jobs: list[Job]) -> None:
    """End the job as Ctrl-C does, so that the files that are kept have an end too, then kill it."""
    for job in jobs:
        job.interrupt()
    deadline = time.monotonic() + END_LIMIT
    while any(job.pids() for job in jobs) and time.monotonic() < deadline:
        for job in jobs:
            job.process.poll()
        time.sleep(0.2)
    _end(jobs)


class _Observation:
    """Waits for the fault, its proof, and what is said of it."""

    def __init__(
        self,
        scenario: Scenario,
        world: World,
        resources: ExitStack,
        interrupts: Interrupts,
        say: Say,
    ) -> None:
        self._scenario = scenario
        self._world = world
        self._resources = resources
        self._interrupts = interrupts
        self._say = say
        self._clock = Clock()

    def make(self) -> dict[str, Any]:
        healthy = self._scenario.kind == "healthy"
        seen = self._health() if healthy else self._fault()
        return {**seen, "watched": round(self._clock.seconds(), 3)}

    def _fault(self) -> dict[str, Any]:
        injection = self._inject()
        limit = START_LIMIT if isinstance(self._scenario.fault, Inside) else PROOF_LIMIT
        self._say("waiting for the fault to take effect")
        fired = self._wait(injection.look, limit)
        if fired is None:
            raise JobOverdueError(f"no proof of the fault within {limit:g} s")
        proof = {"proof": fired.how, "count": fired.count}
        limit = self._scenario.limit
        self._say(f"waiting for the verdict, {limit:g} s at most")
        verdict = self._wait(lambda: next(iter(self._verdicts()), None), limit)
        self._clock.check()
        said = _read(verdict, fired) if verdict else {"seconds": None}
        noticed = _read_notices(self._notices(), fired, said["seconds"])
        return {**proof, **said, **noticed, **(self._heal(injection) if verdict else {})}

    def _inject(self) -> Injection:
        scenario = self._scenario
        if not isinstance(scenario.fault, Inside):
            self._say(f"waiting for step {scenario.step}")
            if self._wait(self._onset, START_LIMIT) is None:
                raise JobOverdueError(f"the job never reached step {scenario.step}")
        with self._interrupts.held():
            injection = scenario.fault.inject(self._world)
            self._resources.callback(injection.undo)
        return injection

    def _heal(self, injection: Injection) -> dict[str, Any]:
        scenario = self._scenario
        if not self._take_back(injection):
            return {}
        self._say("the fault was taken back; waiting for the last word")
        deadline = time.monotonic() + scenario.limit
        while not says_after(scenario, *(last := self._last_word())):
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        return {"after": last[0], "after_hosts": last[1]}

    def _last_word(self) -> tuple[str, tuple[str, ...]]:
        last = self._verdicts()[-1]
        return last["cause"], tuple(sorted({each["host"] for each in last["culprits"]}))

    def _take_back(self, injection: Injection) -> bool:
        if self._scenario.heal_after is None:
            return False
        time.sleep(self._scenario.heal_after)
        injection.undo()
        return True

    def _health(self) -> dict[str, Any]:
        fired = Fired(0.0, 0, "")
        if not isinstance(self._scenario.fault, Inside):
            injection = self._inject()
            found = self._wait(injection.look, PROOF_LIMIT)
            if found is None:
                raise JobOverdueError(f"no proof of the disturbance within {PROOF_LIMIT:g} s")
            fired = found
            self._take_back(injection)
        limit = self._scenario.limit
        self._say(f"waiting for its end, {limit:g} s at most")
        code = max(abs(job.wait_exit(limit)) for job in self._world.jobs)
        verdict = next(iter([*self._verdicts(), *self._neighbours()]), None)
        said = _read(verdict, fired) if verdict else {}
        said |= _read_notices(self._notices(), fired, None)
        return {**said, "seconds": None, "exit_code": code, "proof": fired.how}

    def _onset(self) -> float | None:
        return next((at for job in self._world.jobs if (at := job.onset()) is not None), None)

    def _verdicts(self) -> list[dict[str, Any]]:
        """Give what was said so far by any host, oldest first."""
        found = chain.from_iterable(job.verdicts() for job in self._world.jobs)
        return sorted(found, key=lambda verdict: verdict["made_at"])

    def _notices(self) -> list[dict[str, Any]]:
        """Give what was noticed so far by any host, oldest first."""
        found = chain.from_iterable(job.notices() for job in self._world.jobs)
        return sorted(found, key=lambda notice: notice["made_at"])

    def _neighbours(self) -> list[dict[str, Any]]:
        """Give what was said of jobs that a fault has started beside this one."""
        runs = self._world.folder.glob("second/run")
        return [each for run in runs for each in verdicts(run)]

    def _wait(self, look: Callable[[], T | None], limit: float) -> T | None:
        """Look until there is something, the job has ended, or the limit is reached."""
        deadline = time.monotonic() + limit
        while True:
            ended = all(job.process.poll() is not None for job in self._world.jobs)
            over = ended or time.monotonic() > deadline
            found = look()
            if found is not None or over:
                return found
            time.sleep(0.02)


def _ends(way: dict[str, Any]) -> tuple[str, str]:
    return way["source"], way["target"]


def _read_notices(
    notices: list[dict[str, Any]], fired: Fired, seconds: float | None
) -> dict[str, Any]:
    """Take from the notices who was named, and how soon; `seconds`: when the verdict came."""
    late = [each for each in notices if each["made_at"] >= fired.at]
    told = [round(each["made_at"] - fired.at, 3) for each in late[:1]]
    told += [seconds] if seconds is not None else []
    return {
        "named": min(told, default=None) if fired.at else None,
        "noticed": tuple(sorted({rank["rank"] for each in late for rank in each["ranks"]})),
        "notices": len(notices),
    }


def _read(verdict: dict[str, Any], fired: Fired) -> dict[str, Any]:
    """Take from a verdict what is scored."""
    made_at = datetime.fromisoformat(verdict["made_at"]).timestamp()
    culprits = {(each["rank"], each["host"]) for each in verdict["culprits"]}
    return {
        "cause": verdict["cause"],
        "culprits": tuple(Blamed(rank, host) for rank, host in sorted(culprits)),
        "cut": tuple(sorted({end for way in verdict.get("cut", ()) for end in _ends(way)})),
        "seconds": round(made_at - fired.at, 3),
        "alternatives": tuple(each["cause"] for each in verdict.get("alternatives", ())),
        "summary": verdict.get("summary", ""),
    }
