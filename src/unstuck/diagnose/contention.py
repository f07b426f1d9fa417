"""Is a rank slow because its host does not give it what it needs, and who takes it?"""

import re
from statistics import median

from msgspec import Struct

from unstuck.diagnose.standing import Job
from unstuck.model.host import OtherProcess, Pressure
from unstuck.model.rank import RankState
from unstuck.model.verdict import Evidence

HELD_UP = 0.1
"""A share of time below this explains nothing."""
STARVED = 0.7
"""A stalled rank that lacks a core this much of its time would take three times as long."""
NEARLY_ALL = 0.75
"""Of what a rank needs more than the others: nothing else can have made it slow."""
MORE_WORK = 1.5
"""So many times the others' own time is work of its own, not what its host does to it."""
_MOST_TAKERS = 4
_DISK_WAITS = ("io_schedule", "folio_wait", "wait_on_page", "blk_", "jbd2", "nfs", "rpc_wait")
_READS_OR_WRITES = re.compile(r"\b(fsync|fdatasync|flush|write|read|save|load|open)\w*\(")


class Shortage(Struct, frozen=True):
    """What a rank lacks."""

    what: str
    """One phrase that reads on after "rank 2"."""
    because: str
    evidence: tuple[Evidence, ...]
    share: float


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


def _lacks_quota_more(slow: list[RankState], rest: list[RankState], by: float) -> bool:
    return _apart([s.process.throttled for s in slow], [s.process.throttled for s in rest], by)


def _lacks_core_more(slow: list[RankState], rest: list[RankState], by: float) -> bool:
    return _apart([_delay(s) for s in slow], [_delay(s) for s in rest], by)


def _delay(state: RankState) -> float:
    """Return its share without a core, in the steps that are compared: a short want is none."""
    tempo = state.tempo
    if tempo.delayed is None or not tempo.step:
        return state.process.delayed
    return min(tempo.delayed / tempo.step, state.process.delayed)


def slow_by_themselves(slow: list[RankState], rest: list[RankState]) -> bool:
    """Tell whether slow ranks would need longer than the others also if nobody waited for a core.

    Who has more to compute waits more for cores as well.
    """
    others = median(_undelayed(state) for state in rest) if rest else 0.0
    own = min(_undelayed(state) for state in slow)
    step = median(state.tempo.step for state in slow)
    return own >= MORE_WORK * others and own - others >= HELD_UP * step


def _undelayed(state: RankState) -> float:
    """Return its own time a step, less the time for which it could run and was not let."""
    lack = max(_delay(state), state.process.throttled)
    return max(0.0, state.tempo.own - lack * state.tempo.step)


def starved(state: RankState, pressure: Pressure) -> Shortage | None:
    """Tell what keeps a rank that does not come from running at all."""
    lack = max(state.process.delayed, state.process.throttled)
    if lack >= STARVED and _explains_stall(state, lack):
        if state.process.throttled == lack:
            return lacks_quota(state)
        return lacks_core(state, pressure, frozenset())
    if state.process.state == "D" and pressure.memory >= 0.3:
        return _shortage(
            state,
            f"waits for memory: its host reclaims it {pressure.memory:.0%} of the time",
            "the kernel reports state D and memory pressure",
            pressure.memory,
        )
    return None


def _explains_stall(state: RankState, lack: float) -> bool:
    """Tell whether the rank, since it stalled, has run no longer than its work usually takes."""
    return not state.pace.gaps or state.stalled_for * (1 - lack) <= 2 * state.pace.longest


def pressure_of(job: Job, host: str) -> Pressure:
    """Return the pressure on a host; none where its agents say nothing."""
    return next((n.pressure for n in job.snapshot.nodes if n.host == host), Pressure())


def lacks_quota(state: RankState) -> Shortage:
    """Say that the cpu limit of its cgroup holds a rank back."""
    share = state.process.throttled
    return _shortage(
        state,
        f"is held back by the cpu limit of its cgroup {share:.0%} of the time",
        "its cgroup has used up its cpu limit again and again",
        share,
    )


def lacks_core(state: RankState, pressure: Pressure, job: frozenset[int]) -> Shortage:
    """Say that a rank could run and has no core, and who has it."""
    share = state.process.delayed
    takers = _takers(state, pressure, job)
    found = _shortage(
        state,
        f"waits for a free core {share:.0%} of the time{_taken_by(takers)}",
        "its main thread is runnable and gets no core",
        share,
    )
    text = ", ".join(f"{one.name} (pid {one.pid}) uses {one.cpu:.2g} cores" for one in takers)
    text = text or "no process outside the job uses much there: its own processes compete"
    return Shortage(
        found.what,
        found.because,
        (*found.evidence, Evidence(f"{state.host}: /proc", text, "root")),
        share,
    )


def _takers(state: RankState, pressure: Pressure, job: frozenset[int]) -> list[OtherProcess]:
    """List who runs on the cores that the rank may use, heaviest first."""
    cores = state.process.cores
    others = [other for other in pressure.others if other.pid not in job]
    return [other for other in others if not cores or other.core in cores][:_MOST_TAKERS]


def _taken_by(takers: list[OtherProcess]) -> str:
    return f", beside {takers[0].name} (pid {takers[0].pid})" if takers else ""


def _shortage(state: RankState, what: str, because: str, share: float) -> Shortage:
    process = state.process
    text = f"process {process.pid}: runnable without a core {process.delayed:.0%} of the time"
    text += f", held back by a cpu limit {process.throttled:.0%}, on a core {process.cpu:.0%}"
    return Shortage(what, because, (Evidence(f"rank {state.rank}: /proc", text, "root"),), share)


def _apart(slow: list[float], rest: list[float], by: float) -> bool:
    return min(slow) - (median(rest) if rest else 0.0) >= by


def _lacks_on_host(job: Job, here: list[str], there: list[str], by: float) -> Shortage | None:
    """Compare the host of the slow ranks with the others' hosts."""
    for kind, words in (
        ("steal", "loses its cores to other virtual machines"),
        ("memory", "is short of memory"),
        ("io", "waits for its disks"),
    ):
        mine = [getattr(pressure_of(job, host), kind) for host in here]
        theirs = [getattr(pressure_of(job, host), kind) for host in there]
        if _apart(mine, theirs, by):
            text = f"{kind} {min(mine):.0%} of the time, on the other hosts {median(theirs):.0%}"
            return Shortage(
                f"is slow because its host {words} {min(mine):.0%} of the time",
                f"its host {words} and the others' do not",
                (Evidence(f"{here[0]}: pressure", text, "root"),),
                min(mine),
            )
    return None


def _waits_for_device(slow: list[RankState], pressure: Pressure, by: float) -> Shortage | None:
    if not all(_in_disk_wait(state, by) for state in slow):
        return None
    for kind, share in (("memory", pressure.memory), ("io", pressure.io)):
        if share >= by:
            words = "memory to be reclaimed" if kind == "memory" else "a busy disk"
            beside = "" if kind == "memory" else _disk_taken_by(pressure)
            return _shortage(
                slow[0],
                f"waits for {words}{beside}; its host is under {kind} pressure "
                f"{share:.0%} of the time",
                f"it reads, writes or waits in the kernel, and its host is under {kind} pressure",
                share,
            )
    return None


def _disk_taken_by(pressure: Pressure) -> str:
    """Name who reads from disks and writes to them most."""
    takers = sorted((one for one in pressure.others if one.disk), key=lambda one: -one.disk)
    return f"{_taken_by(takers)} with {takers[0].disk / 1e6:.0f} MB/s" if takers else ""


def _in_disk_wait(state: RankState, by: float) -> bool:
    process, at = state.process, state.tempo.place
    if state.tempo.disk >= by * state.tempo.step > 0 or process.state == "D":
        return True
    if any(word in process.waits_in for word in _DISK_WAITS):
        return True
    return at is not None and bool(_READS_OR_WRITES.search(at.text))


def _pids(job: Job) -> frozenset[int]:
    """The ranks' own processes: another agent of the same host calls them strangers."""
    return frozenset(state.process.pid for state in job.states.values())
