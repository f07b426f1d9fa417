"""Who waits for whom: the wait-for graph over collectives, sends and receives.

Nodes are ranks and operations. A waiting rank points at its operation; an operation points at
the members that have not begun it, or else at those that began it but wait elsewhere. The sinks
of this graph are where the waiting ends: the answer.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from unstuck.diagnose.heads import Group, GroupKey, Head, find_heads, gather_groups, last_words
from unstuck.diagnose.scc import components
from unstuck.diagnose.standing import Job, Standing
from unstuck.diagnose.words import ranks_text
from unstuck.model.rank import PointToPoint
from unstuck.model.verdict import StuckOperation

_MOST_SINKS = 64
_MOST_LINES = 12
_WITHOUT_HEAD = (Standing.STOPPED, Standing.GONE, Standing.SILENT)


class SinkKind(Enum):
    """`RANK`: ranks that did not come. `GROUP`: all are there. `CYCLE`: a circle of waiting."""

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


@dataclass(slots=True)
class WaitGraph:
    """The graph: ranks are nodes 0 and up, operations are nodes -1 and down."""

    job: Job
    heads: dict[int, Head]
    groups: dict[GroupKey, Group]
    operations: list[Head] = field(default_factory=list[Head])
    waiting: list[list[int]] = field(default_factory=list[list[int]])
    edges: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    node_of: dict[int, int] = field(default_factory=dict[int, int])
    """The operation node that each waiting rank points at."""

    def operation(self, node: int) -> Head:
        """Return the operation of a node below zero."""
        return self.operations[-node - 1]

    def waiters(self, node: int) -> list[int]:
        """List the ranks that wait in the operation of a node below zero."""
        return self.waiting[-node - 1]


def build_graph(job: Job, fallen: Iterable[int] = ()) -> WaitGraph:
    """Build the wait-for graph; `fallen` ranks failed while waiting and still count as waiting."""
    heads = find_heads(job)
    for rank in fallen:
        if head := last_words(job.states[rank]):
            heads[rank] = head
    groups = gather_groups(job, (head.group for head in heads.values()))
    graph = WaitGraph(job, heads, groups)
    _add_operations(graph)
    by_group: dict[GroupKey, list[int]] = defaultdict(list)
    for node in range(-1, -len(graph.operations) - 1, -1):
        operation = graph.operation(node)
        if operation.p2p:
            graph.edges[node] = _absent_peers(graph, graph.waiters(node)[0], operation)
        else:
            by_group[operation.group].append(node)
    for key, nodes in by_group.items():
        _add_group_edges(graph, groups[key], nodes)
    return graph


def find_sinks(graph: WaitGraph) -> tuple[Sink, ...]:
    """Find where the waiting ends, most victims first; several sinks are several faults."""
    roots = list(range(-1, -len(graph.operations) - 1, -1))
    parents = _reverse(graph.edges)
    lone: dict[tuple[int, ...], list[int]] = defaultdict(list)
    sinks: list[Sink] = []
    for component in components(graph.edges, roots):
        inside = set(component)
        if any(target not in inside for node in component for target in graph.edges.get(node, ())):
            continue
        if len(component) == 1 and component[0] >= 0:
            lone[tuple(sorted(parents[component[0]]))].append(component[0])
        else:
            sinks.append(_closed_sink(graph, parents, component))
    # Ranks that the same operations wait for are one sink: at scale there are thousands of them.
    for ranks in sorted(lone.values(), key=lambda ranks: (-len(ranks), ranks))[:_MOST_SINKS]:
        sinks.append(_rank_sink(graph, parents, sorted(ranks)))
    return tuple(sorted(sinks, key=lambda sink: (-len(sink.victims), sink.members)))


def _add_operations(graph: WaitGraph) -> None:
    index: dict[tuple[GroupKey, int], int] = {}
    for rank in sorted(graph.heads):
        head = graph.heads[rank]
        node = None if head.p2p else index.get((head.group, head.number))
        if node is None:
            graph.operations.append(head)
            graph.waiting.append([])
            node = -len(graph.operations)
            if not head.p2p:
                index[head.group, head.number] = node
        graph.waiters(node).append(rank)
        graph.edges[rank] = [node]
        graph.node_of[rank] = node


def _add_group_edges(graph: WaitGraph, group: Group, nodes: list[int]) -> None:
    """Point each operation at the members that are behind it.

    Operations of one group share their laggards: a later one points at the earlier one and only
    at the ranks between the two, so that the number of edges stays linear in the members.
    """
    reached = sorted(_reached(graph, group))
    position = 0
    earlier: int | None = None
    for node in sorted(nodes, key=lambda node: graph.operation(node).number):
        number = graph.operation(node).number
        targets = [earlier] if earlier is not None else []
        while position < len(reached) and reached[position][0] < number:
            targets.append(reached[position][1])
            position += 1
        if targets:
            earlier = node
        else:
            targets = _posted_elsewhere(graph, group, node)
        graph.edges[node] = targets


def _reached(graph: WaitGraph, group: Group) -> list[tuple[int, int]]:
    """List (number reached, rank); what is known of a silent rank is old, so only completions."""
    silent = bool(graph.job.silent_for)
    pairs = [
        (
            progress.completed
            if silent and graph.job.standing(rank) is Standing.SILENT
            else progress.enqueued,
            rank,
        )
        for rank, progress in zip(group.ranks, group.progress, strict=True)
    ]
    if len(group.ranks) < len(group.members):
        pairs += [(-1, rank) for rank in set(group.members).difference(group.ranks)]
    return pairs


def _posted_elsewhere(graph: WaitGraph, group: Group, node: int) -> list[int]:
    number = graph.operation(node).number
    return [
        rank
        for rank, progress in zip(group.ranks, group.progress, strict=True)
        if progress.completed < number
        and graph.node_of.get(rank) != node
        and (rank in graph.node_of or _cannot_serve(graph.job, rank))
    ]


def _cannot_serve(job: Job, rank: int) -> bool:
    return job.standing(rank) in _WITHOUT_HEAD or job.states[rank].gil_held


def _absent_peers(graph: WaitGraph, rank: int, head: Head) -> list[int]:
    absent: set[int] = set()
    for one in head.p2p:
        if one.peer < 0:
            absent.update(_possible_senders(graph, rank, head.group))
        elif not _is_met(graph.job, rank, one):
            absent.add(one.peer)
    return sorted(absent)


def _possible_senders(graph: WaitGraph, rank: int, key: GroupKey) -> list[int]:
    group = graph.groups.get(key)
    others = [other for other in (group.members if group else ()) if other != rank]
    return [other for other in others if other not in graph.heads] or others


def _is_met(job: Job, rank: int, one: PointToPoint) -> bool:
    peer = job.states.get(one.peer)
    if peer is None or _cannot_serve(job, one.peer):
        return False
    wanted = "send" if one.kind == "recv" else "recv"
    return any(
        other.kind == wanted
        and other.group == one.group
        and other.tag == one.tag
        and (other.peer == -1 or (other.peer == rank and other.ordinal == one.ordinal))
        for other in peer.p2p
    )


def _reverse(edges: dict[int, list[int]]) -> dict[int, list[int]]:
    parents: dict[int, list[int]] = defaultdict(list)
    for node, targets in edges.items():
        for target in targets:
            parents[target].append(node)
    return parents


def _behind(parents: dict[int, list[int]], start: Iterable[int]) -> dict[int, int]:
    """Map every node with a path to `start` to its distance."""
    distance = dict.fromkeys(start, 0)
    queue = list(distance)
    for node in queue:
        for parent in parents.get(node, ()):
            if parent not in distance:
                distance[parent] = distance[node] + 1
                queue.append(parent)
    return distance


def _rank_sink(graph: WaitGraph, parents: dict[int, list[int]], ranks: list[int]) -> Sink:
    behind = _behind(parents, ranks)
    victims = tuple(sorted(node for node in behind if node >= 0 and behind[node]))
    direct = [node for node in behind if node < 0 and behind[node] == 1 and graph.waiters(node)]
    first = min(direct, key=lambda node: (-len(graph.waiters(node)), -node))
    stuck = _stuck(graph, first, tuple(ranks))
    return Sink(SinkKind.RANK, tuple(ranks), victims, stuck, _chain(graph, behind, ranks))


def _closed_sink(graph: WaitGraph, parents: dict[int, list[int]], component: list[int]) -> Sink:
    behind = _behind(parents, component)
    nodes = sorted((node for node in component if node < 0), reverse=True)
    inside = sorted(node for node in component if node >= 0)
    kind = SinkKind.CYCLE if inside else SinkKind.GROUP
    members = inside or sorted(_participants(graph, nodes[0]))
    taken = set(members)
    victims = tuple(sorted(n for n in behind if n >= 0 and n not in taken))
    first = min(nodes, key=lambda node: (-len(graph.waiters(node)), -node))
    stuck = _stuck(graph, first, ())
    waits = ((node, tuple(r for r in graph.waiters(node) if r in taken)) for node in nodes)
    orders = tuple((operation_text(graph, node), ranks) for node, ranks in waits if ranks)
    return Sink(kind, tuple(members), victims, stuck, _chain(graph, behind, members), orders)


def _participants(graph: WaitGraph, node: int) -> set[int]:
    head = graph.operation(node)
    peers = {one.peer for one in head.p2p if one.peer >= 0}
    return peers | set(graph.waiters(node))


def _stuck(graph: WaitGraph, node: int, missing: tuple[int, ...]) -> StuckOperation:
    head, waiting = graph.operation(node), tuple(graph.waiters(node))
    group = graph.groups.get(head.group)
    size = len(group.members) if group else 0
    description = group.description if group else ""
    if head.p2p:
        one = head.p2p[0]
        return StuckOperation(
            one.kind, one.ordinal, head.group[0], size, description, (), (), waiting, missing
        )
    recorded = recorded_operation(graph, node)
    op, sizes, dtypes = recorded or ("collective", (), ())
    return StuckOperation(
        op, head.number, head.group[0], size, description, sizes, dtypes, waiting, missing
    )


def recorded_operation(
    graph: WaitGraph, node: int
) -> tuple[str, tuple[tuple[int, ...], ...], tuple[str, ...]] | None:
    """Tell what the recorder of some waiting rank says the collective of a node is."""
    head = graph.operation(node)
    for rank in graph.waiters(node)[:_MOST_SINKS]:
        for progress in graph.job.states[rank].groups:
            if progress.name != head.group[0]:
                continue
            for found in (*progress.pending, *progress.recent):
                if found.number == head.number:
                    return found.op, found.sizes, found.dtypes
    return None


def operation_text(graph: WaitGraph, node: int) -> str:
    """Write an operation: `all_reduce #41 of group 0 (4 ranks)`, `recv from rank 3`."""
    head = graph.operation(node)
    if head.p2p:
        return " and ".join(sorted(_p2p_text(one) for one in head.p2p))
    recorded = recorded_operation(graph, node)
    size = len(graph.groups[head.group].members)
    name = recorded[0] if recorded else "collective"
    return f"{name} #{head.number} of group {head.group[0]} ({size} ranks)"


def _p2p_text(one: PointToPoint) -> str:
    word = "from" if one.kind == "recv" else "to"
    return f"{one.kind} {word} " + (f"rank {one.peer}" if one.peer >= 0 else "any rank")


def _chain(graph: WaitGraph, behind: dict[int, int], ends: Iterable[int]) -> tuple[str, ...]:
    """Write one line per operation on the way to the sink, the farthest first."""
    nodes = [node for node in behind if node < 0 and graph.waiters(node)]
    nodes.sort(key=lambda node: (behind[node], -node))
    lines: list[str] = []
    for node in nodes[:_MOST_LINES]:
        targets = [rank for rank in _targets(graph, node) if rank in behind]
        line = f"{ranks_text(graph.waiters(node))} wait in {operation_text(graph, node)}"
        if len(graph.waiters(node)) == 1:
            line = line.replace(" wait in ", " waits in ", 1)
        lines.append(line + (f" for {ranks_text(targets)}" if targets else ""))
    if len(nodes) > _MOST_LINES:
        lines.append(f"{len(nodes) - _MOST_LINES} more operations wait behind these")
    return tuple(reversed(lines))


def _targets(graph: WaitGraph, node: int) -> list[int]:
    found: list[int] = []
    todo = [node]
    while todo:
        for target in graph.edges.get(todo.pop(), ()):
            (found if target >= 0 else todo).append(target)
    return found
