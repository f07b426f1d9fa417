"""Signs of life in the process tree of one rank, from when somebody began to look.

Only counters of the kernel are read, once a second, and only of ranks that hold others up.
"""

import os
from typing import NamedTuple

from unstuck.model.bounds import bounded
from unstuck.model.life import Life, Sign
from unstuck.observe.node.process import procfs, tcp_bytes
from unstuck.observe.node.process.waits_for import children

_EVERY = 1.0
"""Seconds between two looks: the kernel counts processor time in hundredths."""
_MOST_PROCESSES = 256
CPU = 0.03
"""Cores from which on a tree works. The probe's own thread takes less than 0.01."""
BYTES = 1024.0
"""Bytes a second from which on a tree reads, writes or communicates: more than a line of log."""


class _Counters(NamedTuple):
    at: float
    tree: tuple[frozenset[int], int]
    """Who lives, and a counter that grows when somebody ends between two looks."""
    ticks: dict[int, int]
    io: dict[int, int]
    network: int | None
    lines: int


class SignsOfLife:
    """Follows one rank."""

    def __init__(self, pid: int, now: float, lines: int = 0) -> None:
        self._pid = pid
        self._began = self._last_sign = now
        self._seen = self._count(now, lines)
        self._life = Life(0.0, 0.0)

    def look(self, now: float, lines: int) -> Life:
        """Return the signs; counted again when the last look is older than a second.

        `lines` is at how many lines of its script it has been seen since it last made progress.
        """
        if now - self._seen.at >= _EVERY:
            before, self._seen = self._seen, self._count(now, lines)
            self._life = self._compare(before, self._seen)
        return self._life

    def forget_own(self, now: float, lines: int) -> None:
        """Begin anew to count: what was just counted may be what unstuck itself asked for."""
        self._seen = self._count(now, lines)

    def _count(self, now: float, lines: int) -> _Counters:
        pids = _tree(self._pid)
        stats = {pid: found for pid in pids if (found := procfs.stat(pid)) is not None}
        return _Counters(
            at=now,
            tree=(
                frozenset(pid for pid, found in stats.items() if found.state not in "ZX"),
                sum(found.child_faults for found in stats.values()),
            ),
            ticks={pid: found.ticks for pid, found in stats.items()},
            io={pid: _bytes(pid) for pid in stats},
            network=tcp_bytes.total(set(pids)),
            lines=lines,
        )

    def _compare(self, then: _Counters, now: _Counters) -> Life:
        passed = now.at - then.at
        cpu = _growth(then.ticks, now.ticks) / procfs.TICKS / passed
        io = _growth(then.io, now.io) / passed
        network = 0.0
        if then.network is not None and now.network is not None:
            # Less than before: connections were closed, which is no sign by itself.
            network = max(0, now.network - then.network) / passed
        seen = (
            (Sign.CPU, cpu >= CPU),
            (Sign.IO, io >= BYTES),
            (Sign.NETWORK, network >= BYTES),
            (Sign.CODE, now.lines > then.lines),
            (Sign.CHILDREN, now.tree != then.tree),
        )
        signs = tuple(sign for sign, there in seen if there)
        if signs:
            self._last_sign = now.at
        return Life(
            looked_for=round(now.at - self._began, 1),
            quiet_for=round(now.at - self._last_sign, 1),
            signs=signs,
            cpu=round(cpu, 2),
            io=bounded(round(io)),
            network=bounded(round(network)),
        )


def _growth(then: dict[int, int], now: dict[int, int]) -> int:
    """Add up the growth of each process's counter; one that is new has grown from nothing."""
    return sum(max(0, count - then.get(pid, 0)) for pid, count in now.items())


def _tree(pid: int) -> list[int]:
    """List a process and its descendants."""
    found = [pid]
    for one in found:
        found += children(one)
        if len(found) >= _MOST_PROCESSES:
            break
    return found


def _bytes(pid: int) -> int:
    """Read from its io file what a process has read and written; 0 where it is hidden."""
    if not os.path.exists(f"/proc/{pid}/io"):
        return 0
    total = 0
    for line in procfs.read(f"/proc/{pid}/io").splitlines():
        name, _, count = line.partition(": ")
        if name in ("rchar", "wchar"):
            total += int(count)
    return total
