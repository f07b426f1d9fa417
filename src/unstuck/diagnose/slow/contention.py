"""Is a rank slow because its host is short of something, and which process takes it?"""

import re
from statistics import median

from msgspec import Struct

from unstuck.diagnose.job.standing import Job
from unstuck.diagnose.thresholds import (
    HELD_UP,
    HOST_FULL,
    MEMORY_PRESSURE,
    MORE_WORK,
    NEARLY_ALL,
    STARVED,
)
from unstuck.model.doing import Resource, Starved
from unstuck.model.host import OtherProcess, Pressure
from unstuck.model.rank import RankState
from unstuck.model.verdict import Evidence, Role

_MOST_TAKERS = 4
_DISK_WAITS = ("io_schedule", "folio_wait", "wait_on_page", "blk_", "jbd2", "nfs", "rpc_wait")
_READS_OR_WRITES = re.compile(r"\b(fsync|fdatasync|flush|write|read|save|load|open)\w*\(")


class Shortage(Struct, frozen=True):
    """What a rank lacks, and how that is known."""

    lacks: Starved
    because: str
    evidence: tuple[Evidence, ...]


def find_shortage(
    job: Job, slow: list[RankState], rest: list[RankState], excess: float
) -> Shortage | None:
    """Find what slow ranks lack and the others have.

    `excess` is the share of time that they need more than the others: what they lack must
    explain at least half of it. What all ranks lack alike does not make some of them slow.
    """
    needed = max(HELD_UP, excess / 2)
    if not slow_by_themselves(slow, rest):
        if _lacks_quota_more(slow, rest, needed):
            return lacks_quota(slow[0])
        if _lacks_core_more(slow, rest, needed):
            return lacks_core(slow[0], pressure_of(job, slow[0].host), _pids(job))
    here = {state.host for state in slow}
    there = {state.host for state in rest} - here
    alone = not any(state.host in here for state in rest)
    if alone and there:
        return _lacks_on_host(job, sorted(here), sorted(there), needed)
    return _waits_for_device(slow, pressure_of(job, slow[0].host), needed)


def is_starved(slow: list[RankState], rest: list[RankState], excess: float) -> bool:
    """Tell whether slow ranks lack a core, and that explains nearly all of their excess."""
    if slow_by_themselves(slow, rest):
        return False
    needed = max(HELD_UP, NEARLY_ALL * excess)
    return _lacks_quota_more(slow, rest, needed) or _lacks_core_more(slow, rest, needed)


def waits_by_chance(job: Job, slow: list[RankState], rest: list[RankState], excess: float) -> bool:
    """Tell whether slow ranks only had less luck than the others of their host.

    Where a host is short of cores all the time, and they may run on the same ones as ranks that
    keep up, it is the scheduler that decides who waits: another rank in the next minute.
    """
    if slow_by_themselves(slow, rest):
        return False
    full = all(pressure_of(job, state.host).cpu >= HOST_FULL for state in slow)
    places = {(state.host, state.process.cores) for state in rest}
    alike = all((state.host, state.process.cores) in places for state in slow)
    return full and alike and _lacks_core_more(slow, rest, max(HELD_UP, excess / 2))


def _lacks_quota_more(slow: list[RankState], rest: list[RankState], by: float) -> bool:
    return _apart([s.process.throttled for s in slow], [s.process.throttled for s in rest], by)


def _lacks_core_more(slow: list[RankState], rest: list[RankState], by: float) -> bool:
    return _apart([_delay(s) for s in slow], [_delay(s) for s in rest], by)


def _delay(state: RankState) -> float:
    """Return its share of time without a core in the steps compared; a short spell is none."""
    tempo = state.tempo
    if tempo.delayed is None or not tempo.step:
        return state.process.delayed
    return min(tempo.delayed / tempo.step, state.process.delayed)


def slow_by_themselves(slow: list[RankState], rest: list[RankState]) -> bool:
    """Tell whether slow ranks would need longer than the others even if no rank waited for a core.

    A rank that has more to compute also waits more for cores.
    """
    others = median(_undelayed(state) for state in rest) if rest else 0.0
    own = min(_undelayed(state) for state in slow)
    step = median(state.tempo.step for state in slow)
    return own >= MORE_WORK * others and own - others >= HELD_UP * step


def _undelayed(state: RankState) -> float:
    """Return its own time per step, less the time in which it was runnable but did not run."""
    lack = max(_delay(state), state.process.throttled)
    return max(0.0, state.tempo.own - lack * state.tempo.step)


def starved(state: RankState, pressure: Pressure) -> Shortage | None:
    """Tell what keeps a rank that has not arrived from running at all."""
    lack = max(state.process.delayed, state.process.throttled)
    if lack >= STARVED and _explains_stall(state, lack):
        if state.process.throttled == lack:
            return lacks_quota(state)
        return lacks_core(state, pressure, frozenset())
    if state.process.state == "D" and pressure.memory >= MEMORY_PRESSURE:
        lacks = Starved(Resource.MEMORY, pressure.memory)
        return _shortage(state, lacks, "the kernel reports state D and memory pressure")
    return None


def _explains_stall(state: RankState, lack: float) -> bool:
    """Tell whether the rank, since it stalled, has run no longer than its work usually takes."""
    return not state.pace.gaps or state.stalled_for * (1 - lack) <= 2 * state.pace.longest


def pressure_of(job: Job, host: str) -> Pressure:
    """Return the pressure on a host; none where its agents say nothing."""
    return next((n.pressure for n in job.snapshot.nodes if n.host == host), Pressure())


def lacks_quota(state: RankState) -> Shortage:
    """Say that a rank is throttled by the CPU limit of its cgroup."""
    lacks = Starved(Resource.QUOTA, state.process.throttled)
    return _shortage(state, lacks, "its cgroup keeps using up its CPU limit")


def lacks_core(state: RankState, pressure: Pressure, job: frozenset[int]) -> Shortage:
    """Say that a rank could run and has no core, and which processes use the cores."""
    takers = _takers(state, pressure, job)
    lacks = Starved(Resource.CORE, state.process.delayed, takers[0] if takers else None)
    text = ", ".join(f"{one.name} (pid {one.pid}) uses {one.cpu:.2g} cores" for one in takers)
    text = text or "no process outside the job uses much CPU: the job's own processes compete"
    return _shortage(
        state,
        lacks,
        "its main thread is runnable and gets no core",
        Evidence(f"{state.host}: /proc", text, Role.ROOT),
    )


def _takers(state: RankState, pressure: Pressure, job: frozenset[int]) -> list[OtherProcess]:
    """List who runs on the cores that the rank may use, heaviest first."""
    cores = state.process.cores
    others = [other for other in pressure.others if other.pid not in job]
    return [other for other in others if not cores or other.core in cores][:_MOST_TAKERS]


def _shortage(state: RankState, lacks: Starved, because: str, *more: Evidence) -> Shortage:
    process = state.process
    text = f"process {process.pid}: runnable without a core {process.delayed:.0%} of the time"
    text += f", throttled by a CPU limit {process.throttled:.0%}, on a core {process.cpu:.0%}"
    evidence = Evidence(f"rank {state.rank}: /proc", text, Role.ROOT)
    return Shortage(lacks, because, (evidence, *more))


def _apart(slow: list[float], rest: list[float], by: float) -> bool:
    return min(slow) - (median(rest) if rest else 0.0) >= by


def _lacks_on_host(job: Job, here: list[str], there: list[str], by: float) -> Shortage | None:
    """Compare the host of the slow ranks with the others' hosts."""
    for kind, resource, words in (
        ("steal", Resource.STEAL, "loses its cores to other virtual machines"),
        ("memory", Resource.MEMORY, "is short of memory"),
        ("io", Resource.DISK, "waits for its disks"),
    ):
        mine = [getattr(pressure_of(job, host), kind) for host in here]
        theirs = [getattr(pressure_of(job, host), kind) for host in there]
        if _apart(mine, theirs, by):
            text = f"{kind} {min(mine):.0%} of the time, on the other hosts {median(theirs):.0%}"
            return Shortage(
                Starved(resource, min(mine)),
                f"its host {words}, unlike the others' hosts",
                (Evidence(f"{here[0]}: pressure", text, Role.ROOT),),
            )
    return None


def _waits_for_device(slow: list[RankState], pressure: Pressure, by: float) -> Shortage | None:
    if not all(_in_disk_wait(state, by) for state in slow):
        return None
    because = "it reads, writes or waits in the kernel, and its host is under {} pressure"
    if pressure.memory >= by:
        lacks = Starved(Resource.MEMORY, pressure.memory)
        return _shortage(slow[0], lacks, because.format("memory"))
    if pressure.io >= by:
        using = [one for one in pressure.others if one.disk]
        heaviest = max(using, key=lambda one: one.disk, default=None)
        lacks = Starved(Resource.DISK, pressure.io, heaviest)
        return _shortage(slow[0], lacks, because.format("I/O"))
    return None


def _in_disk_wait(state: RankState, by: float) -> bool:
    process, at = state.process, state.tempo.place
    if state.tempo.disk >= by * state.tempo.step > 0 or process.state == "D":
        return True
    if any(word in process.waits_in for word in _DISK_WAITS):
        return True
    return at is not None and bool(_READS_OR_WRITES.search(at.text))


def _pids(job: Job) -> frozenset[int]:
    """The ranks' own processes: another agent on the same host lists them as outsiders."""
    return frozenset(state.process.pid for state in job.states.values())
