"""What happens on a node while its hub is out of reach: kept on disk, reported on return.

One file in the run directory of the node, one JSON object a line: `lost`, then `still` whenever
something changed, then `back`. An agent that is restarted in between continues it.
"""

import contextlib
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from unstuck.clock import SYSTEM, Clock
from unstuck.files import appended
from unstuck.model.host import PeerLink
from unstuck.model.liveness import PROBE_HEARD, PROBE_QUIET
from unstuck.model.rank import RankState


class RankAlive(Struct, frozen=True, omit_defaults=True):
    """A rank as it was at that moment."""

    rank: int
    pid: int
    state: str
    step: int = 0
    stalled_for: float = 0.0


class Entry(Struct, frozen=True, omit_defaults=True):
    """One line of the file; `at` and `since` are Unix times by the node's own clock."""

    event: str
    at: float
    since: float
    heard: tuple[str, ...] = ()
    unheard: tuple[str, ...] = ()
    ranks: tuple[RankAlive, ...] = ()

    def __str__(self) -> str:
        alive = [str(rank.rank) for rank in self.ranks if rank.state != "gone"]
        peers = f", while {', '.join(self.heard)} can be heard" if self.heard else ""
        if self.unheard and not self.heard:
            peers = ", and so has every other node"
        return f"{peers}; alive here and still watched: rank {', '.join(alive) or '(none)'}"


class CutOff(Struct, frozen=True):
    """The summary for the hub."""

    seconds: float = 0.0
    heard: tuple[str, ...] = ()
    """Heard all the time."""
    unheard: tuple[str, ...] = ()
    """Not heard at some time."""


class CutOffLog:
    """The node's own record of a time without the hub."""

    def __init__(self, file: Path | None, clock: Clock = SYSTEM) -> None:
        self._file = file
        self._clock = clock
        self._entries: list[Entry] = []
        entries = _read(file)
        begun = [number for number, entry in enumerate(entries) if entry.event == "lost"]
        if begun and entries[-1].event != "back":
            self._entries = entries[begun[-1] :]

    @property
    def is_open(self) -> bool:
        """Tell whether the hub is out of reach."""
        return bool(self._entries)

    def note(
        self, silent_for: float, links: Iterable[PeerLink], ranks: Iterable[RankState]
    ) -> Entry | None:
        """Write down the state if it has changed; `silent_for`: since the hub was heard."""
        now = self._clock.time()
        heard, unheard = _sides(links)
        entry = Entry(
            event="still" if self._entries else "lost",
            at=round(now, 3),
            since=self._entries[0].since if self._entries else round(now - silent_for, 3),
            heard=heard,
            unheard=unheard,
            ranks=tuple(_alive(rank) for rank in ranks),
        )
        if self._entries and _same(entry, self._entries[-1]):
            return None
        self._append(entry)
        return entry

    def end(self) -> CutOff | None:
        """Close the record: the hub is back. None if it never was away."""
        if not self._entries:
            return None
        now = self._clock.time()
        entries, since = self._entries, self._entries[0].since
        self._append(Entry("back", round(now, 3), since))
        self._entries = []
        unheard = {host for entry in entries for host in entry.unheard}
        heard = {host for entry in entries for host in entry.heard} - unheard
        seconds = round(max(0.0, now - since), 3)
        return CutOff(seconds, tuple(sorted(heard)), tuple(sorted(unheard)))

    def _append(self, entry: Entry) -> None:
        self._entries.append(entry)
        if self._file is not None:
            # A full disk must not end the watching; the record is still reported from memory.
            with contextlib.suppress(OSError), appended(self._file) as out:
                out.write(msgspec.json.encode(entry) + b"\n")


def _read(file: Path | None) -> list[Entry]:
    entries: list[Entry] = []
    if file is not None:
        with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            for line in file.read_bytes().splitlines():
                entries.append(msgspec.json.decode(line, type=Entry))  # noqa: PERF401
    return entries


def _sides(links: Iterable[PeerLink]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sort peers into those still heard and those no longer; one never heard proves nothing."""
    latest: dict[str, float] = {}
    for link in links:
        if link.heard_for is not None:
            latest[link.host] = min(link.heard_for, latest.get(link.host, link.heard_for))
    heard = sorted(host for host, age in latest.items() if age < PROBE_HEARD)
    unheard = sorted(host for host, age in latest.items() if age >= PROBE_QUIET)
    return tuple(heard), tuple(unheard)


def _alive(rank: RankState) -> RankAlive:
    process = rank.process
    return RankAlive(rank.rank, process.pid, process.state, rank.step, round(rank.stalled_for, 1))


def _same(one: Entry, other: Entry) -> bool:
    ends = [[(r.rank, r.pid, r.state == "gone") for r in entry.ranks] for entry in (one, other)]
    return (one.heard, one.unheard, ends[0]) == (other.heard, other.unheard, ends[1])
