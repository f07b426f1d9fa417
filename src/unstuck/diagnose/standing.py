"""Where each rank stands: seen and alive, stopped, gone, silent, unseen or never there."""

from collections import defaultdict
from dataclasses import dataclass
from enum import Enum

from unstuck.model.rank import RankState
from unstuck.model.snapshot import NodeState, Snapshot

SILENT_AFTER = 3.0
"""Seconds without a frame after which a node's ranks count as silent."""


class Standing(Enum):
    """How much the last frames tell of a rank."""

    LIVE = "live"
    STOPPED = "stopped"
    GONE = "gone"
    SILENT = "silent"
    UNSEEN = "unseen"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Job:
    """A snapshot with its ranks by number and where each of them stands."""

    snapshot: Snapshot
    states: dict[int, RankState]
    standings: dict[int, Standing]
    silent_for: dict[str, float]
    """Per silent host: since its last frame."""

    def standing(self, rank: int) -> Standing:
        """Tell where a rank stands; one that was never seen is `MISSING`."""
        return self.standings.get(rank, Standing.MISSING)

    def host(self, rank: int) -> str:
        """Name the host of a rank; empty if it was never seen."""
        state = self.states.get(rank)
        return state.host if state else ""


def survey(snapshot: Snapshot) -> Job:
    """Index a snapshot by rank and say where each rank stands."""
    by_host: dict[str, list[NodeState]] = defaultdict(list)
    for node in snapshot.nodes:
        if not node.ended:
            by_host[node.host].append(node)
    unseen = {host for host, nodes in by_host.items() if all(n.disconnected for n in nodes)}
    silent = {
        host: min(node.silent_for for node in nodes)
        for host, nodes in by_host.items()
        if host not in unseen and all(n.disconnected or n.silent_for > SILENT_AFTER for n in nodes)
    }
    states = {state.rank: state for state in snapshot.ranks}
    standings = {rank: _stand(state, unseen, silent) for rank, state in states.items()}
    return Job(snapshot, states, standings, silent)


def has_ended(state: RankState) -> bool:
    """Tell whether the process of a rank is gone (or only waits to be reaped)."""
    process = state.process
    return process.gone_for is not None or process.state in ("gone", "Z", "X")


def _stand(state: RankState, unseen: set[str], silent: dict[str, float]) -> Standing:
    if has_ended(state):
        return Standing.GONE
    if state.host in unseen:
        return Standing.UNSEEN
    if state.host in silent:
        return Standing.SILENT
    if state.process.state in ("T", "t"):
        return Standing.STOPPED
    return Standing.UNSEEN if state.unobserved else Standing.LIVE
