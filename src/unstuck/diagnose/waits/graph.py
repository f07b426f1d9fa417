"""The wait-for graph over collectives, sends, receives and meetings.

Nodes are ranks and operations. A waiting rank points at its operation; an operation points at
the members that have not begun it, or else at those that began it but wait elsewhere.
"""

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from unstuck.diagnose.job.standing import Job, Standing
from unstuck.diagnose.waits.meetings import absent_from, find_meetings
from unstuck.diagnose.waits.operations import (
    Group,
    GroupKey,
    Head,
    find_heads,
    gather_groups,
    last_words,
    runs_in_order,
)
from unstuck.model.rank import PointToPoint

_WITHOUT_HEAD = (Standing.STOPPED, Standing.GONE, Standing.SILENT)


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

    @property
    def nodes(self) -> range:
        """The operations' nodes, in the order in which they were found."""
        return range(-1, -len(self.operations) - 1, -1)

    def operation(self, node: int) -> Head:
        """Return the operation of a node below zero."""
        return self.operations[-node - 1]

    def waiters(self, node: int) -> list[int]:
        """List the ranks that wait in the operation of a node below zero."""
        return self.waiting[-node - 1]


def build_graph(job: Job, fallen: Iterable[int] | None = None) -> WaitGraph:
    """Build the wait-for graph.

    `fallen` ranks failed while they waited and still count as waiting. Who is in a meeting then is
    there because of them.
    """
    heads = find_heads(job)
    if fallen is None:
        heads |= find_meetings(job)
    for rank in fallen or ():
        if head := last_words(job.states[rank]):
            heads[rank] = head
    operations, waiting = _find_operations(heads)
    groups = gather_groups(job, (operation.group for operation in operations))
    graph = WaitGraph(job, heads, groups, operations, waiting)
    for node, waiters in zip(graph.nodes, waiting, strict=True):
        link = [node]  # one list for all ranks that point at the same operation
        graph.edges.update(dict.fromkeys(waiters, link))
        graph.node_of.update(dict.fromkeys(waiters, node))
    by_group: dict[GroupKey, list[int]] = defaultdict(list)
    for node in graph.nodes:
        operation = graph.operation(node)
        if operation.p2p:
            graph.edges[node] = _absent_peers(graph, graph.waiters(node)[0], operation)
        elif operation.call:
            graph.edges[node] = absent_from(job, operation, graph.waiters(node))
        else:
            by_group[operation.group].append(node)
    for key, nodes in by_group.items():
        _add_group_edges(graph, groups[key], nodes)
    return graph


def _find_operations(heads: dict[int, Head]) -> tuple[list[Head], list[list[int]]]:
    """List the operations and who waits in each; a message is one of a single rank."""
    operations: list[Head] = []
    waiting: list[list[int]] = []
    together: dict[Head, list[int]] = {}
    for rank in sorted(heads):
        head = heads[rank]
        waiters = None if head.p2p else together.get(head)
        if waiters is None:
            waiters = together[head] = []
            operations.append(head)
            waiting.append(waiters)
        waiters.append(rank)
    return operations, waiting


def _add_group_edges(graph: WaitGraph, group: Group, nodes: list[int]) -> None:
    """Point each operation at the members that are behind it.

    Operations of one group share their laggards: a later one points at the earlier one and only
    at the ranks between the two, so that the number of edges stays linear in the members.
    """
    reached = _reached(graph, group)
    numbers = deque(sorted(reached))
    earlier: int | None = None
    for node in sorted(nodes, key=lambda node: graph.operation(node).number):
        number = graph.operation(node).number
        targets = [earlier] if earlier is not None else []
        while numbers and numbers[0] < number:
            targets += reached[numbers.popleft()]
        if targets:
            earlier = node
        else:
            targets = _posted_elsewhere(graph, group, node)
        graph.edges[node] = targets


def _reached(graph: WaitGraph, group: Group) -> dict[int, list[int]]:
    """Map numbers to who reached them; what is known of a silent rank is old, so completions."""
    silent = bool(graph.job.silent_for)
    reached: dict[int, list[int]] = defaultdict(list)
    for rank, progress in zip(group.ranks, group.progress, strict=True):
        old = silent and graph.job.standing(rank) is Standing.SILENT
        reached[progress.completed if old else progress.enqueued].append(rank)
    if len(group.ranks) < len(group.members):
        reached[-1] += sorted(set(group.members).difference(group.ranks))
    return reached


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
    elsewhere: set[int] = set()
    for one in head.p2p:
        if one.peer < 0:
            absent.update(_possible_senders(graph, rank, head.group))
        elif not is_met(graph.job, rank, one):
            absent.add(one.peer)
        elif _waits_elsewhere(graph, rank, one):
            elsewhere.add(one.peer)
    return sorted(absent or elsewhere)


def _waits_elsewhere(graph: WaitGraph, rank: int, one: PointToPoint) -> bool:
    """Tell whether the peer has issued its part, but its device is still in something earlier.

    On gloo a message that both sides have issued goes its way whatever else they do.
    """
    head = graph.heads.get(one.peer)
    if head is None or not runs_in_order(graph.job.states[one.peer]):
        return False
    return not _has_match(rank, one, head.p2p)


def _possible_senders(graph: WaitGraph, rank: int, key: GroupKey) -> list[int]:
    group = graph.groups.get(key)
    others = [other for other in (group.members if group else ()) if other != rank]
    return [other for other in others if other not in graph.heads] or others


def is_met(job: Job, rank: int, one: PointToPoint) -> bool:
    """Tell whether the peer of a message has issued its part and can do it."""
    peer = job.states.get(one.peer)
    if peer is None or _cannot_serve(job, one.peer):
        return False
    return _has_match(rank, one, peer.p2p)


def _has_match(rank: int, one: PointToPoint, pending: Iterable[PointToPoint]) -> bool:
    wanted = "send" if one.kind == "recv" else "recv"
    return any(
        other.kind == wanted
        and other.group == one.group
        and other.tag == one.tag
        and (other.peer == -1 or (other.peer == rank and other.ordinal == one.ordinal))
        for other in pending
    )
