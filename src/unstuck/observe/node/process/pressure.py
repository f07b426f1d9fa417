"""What a host lacks: pressure stall figures, time stolen by the hypervisor, and who takes it."""

import math
import os
import time
from collections.abc import Collection, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from unstuck.model.host import OtherProcess, Pressure
from unstuck.model.rank import Process
from unstuck.observe.node.process import procfs
from unstuck.observe.node.process.cgroup import pressure_folder
from unstuck.observe.node.process.rate import Rate

_EVERY = 0.9
_KINDS = ("cpu", "io", "memory")
_KERNEL_THREADS = 2
"""The parent of them all."""
_PRESSED = 0.2
"""From this share on it is worth looking who else runs on the host."""


class PressureMeter:
    """Reads the host's own figures once a second; each of them may be missing."""

    def __init__(self, root: str = "/proc", launcher: int = 0) -> None:
        self._root = root
        self._rates = {kind: Rate() for kind in _KINDS}
        self._steal = Rate()
        self._neighbours = Neighbours(root, launcher or os.getppid())
        self._looked = 0.0
        self._found = Pressure()

    def look(self, now: float, ranks: Sequence[Process]) -> Pressure:
        """Return the pressure of the last seconds; `ranks` are the job's processes here."""
        if now - self._looked < _EVERY:
            return self._found
        self._looked = now
        folder = pressure_folder(ranks[0].pid) if ranks else None
        shares = {kind: self._share(kind, folder, now) for kind in _KINDS}
        steal = self._stolen()
        delayed = max((each.delayed for each in ranks), default=0.0)
        known = {"pressure": None not in shares.values(), "steal": steal is not None}
        known["delays"] = os.path.exists(f"{self._root}/self/schedstat")
        pressed = max(delayed, *(share or 0.0 for share in shares.values())) >= _PRESSED
        self._found = Pressure(
            cpu=shares["cpu"] or 0.0,
            io=shares["io"] or 0.0,
            memory=shares["memory"] or 0.0,
            throttled=max((each.throttled for each in ranks), default=0.0),
            steal=steal or 0.0,
            others=self._neighbours.look(now, {each.pid for each in ranks}) if pressed else (),
            unseen=tuple(name for name, seen in known.items() if not seen),
        )
        return self._found

    def _share(self, kind: str, folder: str | None, now: float) -> float | None:
        """Read how long some task was held up: `some avg10=… total=MICROSECONDS`.

        The ranks' own cgroup where it tells, for the host may be under the pressure of others.
        """
        file = f"{folder}/{kind}.pressure" if folder else f"{self._root}/pressure/{kind}"
        first = procfs.read(file).partition("\n")[0]
        _, found, total = first.partition("total=")
        if not found or not total.isdigit():
            return None
        return self._rates[kind].share(now, int(total) / 1e6)

    def _stolen(self) -> float | None:
        """Read the share of all cores' time that the hypervisor gave to somebody else."""
        fields = procfs.read(f"{self._root}/stat").partition("\n")[0].split()
        if len(fields) < 9 or fields[0] != "cpu":
            return None
        ticks = [int(field) for field in fields[1:9]]
        cores = procfs.TICKS * (os.cpu_count() or 1)
        return self._steal.share(sum(ticks) / cores, ticks[7] / cores)


class _Counts(NamedTuple):
    started: int
    ticks: int
    disk: int

    def since(self, then: "_Counts | None") -> "_Counts":
        """Return the growth since the last look; everything where the process is new."""
        if then is None or then.started != self.started:
            return self
        return _Counts(self.started, self.ticks - then.ticks, self.disk - then.disk)


class Neighbours:
    """Finds the heaviest processes outside the job.

    It reads every process of the host, which takes milliseconds: so it is asked under pressure
    only, and after that rests for two hundred times as long as the look has taken.
    """

    LEAST = 0.05
    """Cores that a process must use to be worth naming: many light ones fill a core too."""
    LEAST_DISK = 1 << 20
    """Bytes a second; a disk that holds a training up is kept busy by more than this."""
    MOST_NAMED = 8

    def __init__(self, root: str, launcher: int) -> None:
        self._root = root
        self._launcher = launcher
        self._before: tuple[float, dict[int, _Counts]] = (-math.inf, {})
        self._rest = 0.0
        self._found: tuple[OtherProcess, ...] = ()

    def look(self, now: float, ranks: Collection[int]) -> tuple[OtherProcess, ...]:
        """Return who took how many cores, and how much of the disks, between the last two looks."""
        since = now - self._before[0]
        if since < max(2.0, self._rest):
            return self._found
        began = time.perf_counter()
        seen = self._scan()
        job = self._job(seen, ranks)
        counts = {pid: self._counts(pid, each) for pid, each in seen.items() if pid not in job}
        then, self._before = self._before[1], (now, counts)
        used = {pid: each.since(then.get(pid)) for pid, each in counts.items() if since < 30}
        found = [
            OtherProcess(
                pid,
                seen[pid].name,
                round(each.ticks / procfs.TICKS / since, 2),
                seen[pid].core,
                int(each.disk / since),
            )
            for pid, each in used.items()
        ]
        self._found = tuple(replace(one, name=self._name(one)) for one in self._heaviest(found))
        self._rest = 200 * (time.perf_counter() - began)
        return self._found

    def _heaviest(self, found: list[OtherProcess]) -> list[OtherProcess]:
        """Those that take most of the cores, and after them those that only take the disks."""
        heavy = [one for one in found if one.cpu >= self.LEAST]
        light = [one for one in found if one.cpu < self.LEAST and one.disk >= self.LEAST_DISK]
        heavy.sort(key=lambda one: (-one.cpu, one.pid))
        light.sort(key=lambda one: (-one.disk, one.pid))
        half = self.MOST_NAMED // 2
        kept = heavy[: max(half, self.MOST_NAMED - len(light))]
        return [*kept, *light[: self.MOST_NAMED - len(kept)]]

    def _counts(self, pid: int, usage: procfs.Stat) -> _Counts:
        # A thread of the kernel reads and writes for others.
        kernel = usage.parent == _KERNEL_THREADS
        disk = 0 if kernel else procfs.disk_bytes(f"{self._root}/{pid}/io")
        return _Counts(usage.started, usage.ticks, disk)

    def _name(self, one: OtherProcess) -> str:
        return procfs.command(f"{self._root}/{one.pid}/cmdline") or one.name

    def _scan(self) -> dict[int, procfs.Stat]:
        found: dict[int, procfs.Stat] = {}
        for name in os.listdir(self._root):
            if name.isdigit() and (usage := procfs.stat(f"{self._root}/{name}/stat")):
                found[int(name)] = usage
        return found

    def _job(self, seen: dict[int, procfs.Stat], ranks: Collection[int]) -> set[int]:
        """Collect the job's processes: ranks, launcher, and all that descend from them."""
        inside = {self._launcher, os.getpid(), *ranks}
        outside = {0, 1, 2} - inside
        for first in list(seen):
            pid, path = first, list[int]()
            while pid not in inside and pid not in outside and pid in seen:
                path.append(pid)
                pid = seen[pid].parent
            (inside if pid in inside else outside).update(path)
        return inside
