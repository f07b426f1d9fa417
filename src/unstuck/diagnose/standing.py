"""Where each rank stands: seen and alive, stopped, gone, silent, unseen or never there."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter

from unstuck.diagnose.links import Links, read_links
from unstuck.diagnose.patience import long_places
from unstuck.model.rank import RankState
from unstuck.model.snapshot import NodeState, Snapshot

SILENT_AFTER = 3.0
"""Seconds without a frame after which a node's ranks count as silent."""
SILENT_IF_DOUBTED = 2.0
"""The same where a peer of the node misses it as well."""
_USUAL = 0.3
"""Seconds within which an agent hears its peers while all is well."""
_MOST_BEFORE = 1.0
"""So long before its last frame, at most, a node counts as out of touch."""
_MOVES = 1.0
"""A rank that came further within so many seconds moves."""


class Standing(Enum):
    """How much the last frames tell of a rank."""

    LIVE = "live"
    STOPPED = "stopped"
    GONE = "gone"
    SILENT = "silent"
    UNSEEN = "unseen"
    MISSING = "missing"


_ENDED = frozenset({"gone", "Z", "X"})
_STOPPED = frozenset({"T", "t", "F"})
_BY_LETTER = dict.fromkeys(_ENDED, Standing.GONE) | dict.fromkeys(_STOPPED, Standing.STOPPED)
# The name of a member is looked up at each use of it, which counts where all ranks are judged.
_GONE, _LIVE = Standing.GONE, Standing.LIVE


@dataclass(frozen=True, slots=True)
class Job:
    """A snapshot with its ranks by number and where each of them stands."""

    snapshot: Snapshot
    states: dict[int, RankState]
    """In the order of the ranks."""
    standings: dict[int, Standing]
    live: list[RankState]
    """Those that are seen and alive, in the order of the ranks."""
    silent_for: dict[str, float]
    """Per silent host: since its last frame."""
    long_places: dict[str, float] = field(default_factory=dict[str, float])
    """Where ranks are known to be long without progress, and how long at most."""
    links: Links = field(default_factory=Links)
    """Who hears whom directly."""

    def standing(self, rank: int) -> Standing:
        """Tell where a rank stands; one that was never seen is `MISSING`."""
        return self.standings.get(rank, Standing.MISSING)

    def host(self, rank: int) -> str:
        """Name the host of a rank; empty if it was never seen."""
        state = self.states.get(rank)
        return state.host if state else ""


def survey(snapshot: Snapshot) -> Job:
    """Index a snapshot by rank and say where each rank stands."""
    links = read_links(snapshot)
    by_host = _quiet_hosts(snapshot, links)
    unseen = {host for host, nodes in by_host.items() if all(n.disconnected for n in nodes)}
    silent = {
        host: min(node.silent_for for node in nodes)
        for host, nodes in by_host.items()
        if host not in unseen and all(_is_silent(node, links) for node in nodes)
    }
    states = {state.rank: state for state in sorted(snapshot.ranks, key=attrgetter("rank"))}
    standings = {rank: _stand(state, unseen, silent) for rank, state in states.items()}
    live = [state for rank, state in states.items() if standings[rank] is _LIVE]
    return Job(snapshot, states, standings, live, silent, long_places(snapshot), links)


def _quiet_hosts(snapshot: Snapshot, links: Links) -> dict[str, list[NodeState]]:
    """Gather the nodes of the hosts on which some node is silent, which mostly are few."""
    running = [node for node in snapshot.nodes if not node.ended]
    quiet = {node.host for node in running if _is_silent(node, links)}
    by_host: dict[str, list[NodeState]] = defaultdict(list)
    for node in running:
        if node.host in quiet:
            by_host[node.host].append(node)
    return by_host


def _is_silent(node: NodeState, links: Links) -> bool:
    if node.disconnected or node.silent_for > SILENT_AFTER:
        return True
    return links.is_doubted(node.host) and _out_of_touch_for(node) > SILENT_IF_DOUBTED


def _out_of_touch_for(node: NodeState) -> float:
    """Count from when a node last heard anybody.

    The first frame of one that nothing reaches still arrives, and says that it hears nobody;
    the next ones wait for a confirmation that never comes.
    """
    heard = [link.heard_for for link in node.links if link.heard_for is not None]
    before = min(heard, default=0.0) - _USUAL
    return node.silent_for + min(_MOST_BEFORE, max(0.0, before))


def has_ended(state: RankState) -> bool:
    """Tell whether the process of a rank is gone (or only waits to be reaped)."""
    process = state.process
    return process.gone_for is not None or process.state in _ENDED


def all_move(states: Iterable[RankState]) -> bool:
    """Tell whether every one of these ranks has come further just now.

    Example:
        >>> all_move([])
        True
    """
    return all(s.stalled_for < _MOVES and s.process.gone_for is None for s in states)


def _stand(state: RankState, unseen: set[str], silent: dict[str, float]) -> Standing:
    process = state.process
    told = _GONE if process.gone_for is not None else _BY_LETTER.get(process.state, _LIVE)
    if told is _GONE:
        return told
    if state.host in unseen:
        return Standing.UNSEEN
    if state.host in silent:
        return Standing.SILENT
    return Standing.UNSEEN if told is _LIVE and state.unobserved else told
