"""Where each rank stands: seen and alive, stopped, gone, silent, unseen or never there."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter

from unstuck.diagnose.job.links import Links, read_links
from unstuck.diagnose.job.patience import long_places
from unstuck.diagnose.thresholds import MOVES_WITHIN
from unstuck.model.liveness import Standing, has_ended, is_silent_for_verdict, of_rank
from unstuck.model.rank import RankState
from unstuck.model.snapshot import NodeState, Snapshot

__all__ = ["Job", "Standing", "all_move", "has_ended", "survey"]


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
    twice: tuple[int, ...] = ()
    """Ranks that more than one living process says it is."""

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
    standings = {rank: of_rank(state, silent, unseen) for rank, state in states.items()}
    there = Standing.LIVE
    live = [state for rank, state in states.items() if standings[rank] is there]
    known = long_places(snapshot)
    return Job(snapshot, states, standings, live, silent, known, links, _twice(snapshot, states))


def _twice(snapshot: Snapshot, states: dict[int, RankState]) -> tuple[int, ...]:
    if len(states) == len(snapshot.ranks):
        return ()
    alive = Counter(one.rank for one in snapshot.ranks if one.process.gone_for is None)
    return tuple(sorted(rank for rank, count in alive.items() if count > 1))


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
    doubted = not node.disconnected and links.is_doubted(node.host)
    return node.disconnected or is_silent_for_verdict(node, doubted=doubted)


def all_move(states: Iterable[RankState]) -> bool:
    """Tell whether every one of these ranks has just made progress.

    Example:
        >>> all_move([])
        True
    """
    return all(s.stalled_for < MOVES_WITHIN and s.process.gone_for is None for s in states)
