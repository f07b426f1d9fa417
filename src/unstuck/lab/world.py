"""What a fault can affect: the ranks, launchers and hosts of a running job."""

import contextlib
import os
import select
from dataclasses import dataclass
from pathlib import Path

from unstuck.errors import JobOverdueError, LabError
from unstuck.lab.cgroups import Cgroup
from unstuck.lab.hosts import Hosts
from unstuck.lab.job import Job
from unstuck.observe.node.process import procfs


@dataclass(frozen=True)
class World:
    """A running job: one `Job` per host, and the hosts if there are several."""

    folder: Path
    jobs: tuple[Job, ...]
    hosts: Hosts | None = None
    group: Cgroup | None = None
    """The control group in which the job was started, if its fault needs one."""

    def need_hosts(self) -> Hosts:
        """Return the hosts.

        Raises:
            LabError: the scenario has none.
        """
        if self.hosts is None:
            raise LabError("this fault needs hosts", hint="set `hosts = 2` in the scenario")
        return self.hosts

    def ranks(self) -> dict[int, int]:
        """Map each live rank to its process, not to children that inherit its environment."""
        pids = (pid for job in self.jobs for pid in job.pids())
        found = {pid: rank for pid in pids if (rank := _rank(pid)) is not None}
        return {
            rank: pid
            for pid, rank in found.items()
            if (stat := procfs.stat(pid)) and stat.parent not in found
        }

    def pid(self, rank: int) -> int:
        """Return the process of one rank.

        Raises:
            JobOverdueError: it has none.
        """
        try:
            return self.ranks()[rank]
        except KeyError:
            raise JobOverdueError(f"rank {rank} has no process") from None

    def launcher(self, host: int = 0) -> int:
        """Return the torchrun of one host: the parent of its ranks."""
        own = self.jobs[host].pids()
        for pid in self.ranks().values():
            stat = procfs.stat(pid)
            if pid in own and stat is not None:
                return stat.parent
        raise JobOverdueError(f"host {host} has no ranks")


class Watched:
    """Notices when a process ends, whoever its parent is."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._file = os.pidfd_open(pid)

    def ended(self) -> bool:
        """Tell whether it has ended; zombies have."""
        return self._file < 0 or bool(select.select([self._file], [], [], 0)[0])

    def close(self) -> None:
        """Stop watching."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _rank(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        for word in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if word.startswith(b"RANK="):
                return int(word[5:])
    return None
