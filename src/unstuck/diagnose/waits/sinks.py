"""Where the waiting ends: the sinks of the wait-for graph are the answer."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from unstuck.diagnose.job.standing import Job
from unstuck.diagnose.waits.chain import chain_lines, operation_text, stuck_operation, waited_for
from unstuck.diagnose.waits.graph import WaitGraph
from unstuck.diagnose.waits.meetings import INIT
from unstuck.diagnose.waits.scc import components
from unstuck.model.verdict import StuckOperation

_MOST_SINKS = 64


class SinkKind(Enum):
    """`RANK`: ranks that have not arrived. `GROUP`: all are there. `CYCLE`: a circle of waiting."""

    RANK = "rank"
    GROUP = "group"
    CYCLE = "cycle"


@dataclass(frozen=True, slots=True)
class Sink:
    """Where some waiting ends."""

    kind: SinkKind
    members: tuple[int, ...]
    victims: tuple[int, ...]
    """All ranks that wait for it, directly or through others; never its members."""
    stuck: StuckOperation
    chain: tuple[str, ...]
    orders: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """For a cycle: each operation of it in words, and the members that wait in it."""
    call: str = ""
    """The meeting that ranks wait in there, if it is one; for a cycle: one of those in it."""


def find_sinks(graph: WaitGraph) -> tuple[Sink, ...]:
    """Find where the waiting ends, most victims first; several sinks are several faults."""
    parents = _reverse(graph)
    lone: dict[tuple[int, ...], list[int]] = defaultdict(list)
    sinks: list[Sink] = []
    for component in components(graph.edges, graph.nodes):
        inside = set(component)
        if any(target not in inside for node in component for target in graph.edges.get(node, ())):
            continue
        if len(component) == 1 and component[0] >= 0:
            lone[tuple(sorted(parents[component[0]]))].append(component[0])
        else:
            sinks.append(_closed_sink(graph, parents, component))
    # Ranks that the same operations wait for are one sink: at scale there are thousands of them.
    largest = sorted(lone.values(), key=lambda ranks: (-len(ranks), ranks))[:_MOST_SINKS]
    sinks.extend(_rank_sink(graph, parents, sorted(ranks)) for ranks in largest)
    return tuple(sorted(sinks, key=lambda sink: (-len(sink.victims), sink.members)))


def has_lasted(job: Job, sink: Sink) -> float:
    """Return the longest wait among those that wait in the sink's operation."""
    states = (job.states[rank] for rank in sink.stuck.waiting if rank in job.states)
    return max((state.stalled_for for state in states), default=0.0)


def _reverse(graph: WaitGraph) -> dict[int, list[int]]:
    parents: dict[int, list[int]] = defaultdict(list)
    for node in graph.nodes:
        parents[node] += graph.waiters(node)
        for target in graph.edges[node]:
            parents[target].append(node)
    return parents


def ranks_behind(graph: WaitGraph, node: int) -> set[int]:
    """Find all ranks that wait in or behind the operation of a node."""
    return {rank for rank in _behind(_reverse(graph), [node]) if rank >= 0}


def _behind(parents: dict[int, list[int]], start: Iterable[int]) -> dict[int, int]:
    """Map every node with a path to `start` to its distance."""
    distance = dict.fromkeys(start, 0)
    queue = list(distance)
    for node in queue:
        if found := parents.get(node):
            fresh = [parent for parent in found if parent not in distance]
            distance.update(dict.fromkeys(fresh, distance[node] + 1))
            queue += fresh
    return distance


def _rank_sink(graph: WaitGraph, parents: dict[int, list[int]], ranks: list[int]) -> Sink:
    behind = _behind(parents, ranks)
    victims = tuple(sorted([node for node, far in behind.items() if node >= 0 and far]))
    direct = [node for node in behind if node < 0 and behind[node] == 1 and graph.waiters(node)]
    first = min(direct, key=lambda node: (-len(graph.waiters(node)), -node))
    stuck = stuck_operation(graph, first, tuple(ranks))
    calls = [graph.operation(node).call for node in direct]
    call = INIT if INIT in calls else graph.operation(first).call
    return Sink(SinkKind.RANK, tuple(ranks), victims, stuck, chain_lines(graph, behind), (), call)


def _closed_sink(graph: WaitGraph, parents: dict[int, list[int]], component: list[int]) -> Sink:
    behind = _behind(parents, component)
    nodes = sorted((node for node in component if node < 0), reverse=True)
    inside = sorted(node for node in component if node >= 0)
    kind = SinkKind.CYCLE if inside else SinkKind.GROUP
    members = inside or sorted(_participants(graph, nodes[0]))
    taken = set(members)
    victims = tuple(sorted(n for n in behind if n >= 0 and n not in taken))
    first = min(nodes, key=lambda node: (-len(graph.waiters(node)), -node))
    stuck = stuck_operation(graph, first, tuple(sorted(waited_for(graph, first))))
    waits = ((node, tuple(r for r in graph.waiters(node) if r in taken)) for node in nodes)
    orders = tuple((operation_text(graph, node), ranks) for node, ranks in waits if ranks)
    call = next((call for node in nodes if (call := graph.operation(node).call)), "")
    return Sink(kind, tuple(members), victims, stuck, chain_lines(graph, behind), orders, call)


def _participants(graph: WaitGraph, node: int) -> set[int]:
    head = graph.operation(node)
    peers = {one.peer for one in head.p2p if one.peer >= 0}
    return peers | set(graph.waiters(node))
