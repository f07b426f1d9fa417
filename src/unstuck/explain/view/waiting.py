"""Who waits for whom, as boxes and arrows: from the ranks that wait to the one they wait for."""

import itertools
from collections import defaultdict
from enum import StrEnum

from msgspec import Struct

from unstuck.diagnose.job.standing import survey
from unstuck.diagnose.text import group_text, numbers_text, ranks_text
from unstuck.diagnose.waits.chain import recorded_operation, waited_for
from unstuck.diagnose.waits.graph import WaitGraph, build_graph
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import StuckOperation, Verdict

MOST_OPERATIONS = 6


class BoxKind(StrEnum):
    """What a box of the picture stands for."""

    WAITING = "waiting"
    """Ranks that wait."""
    OPERATION = "operation"
    CULPRIT = "culprit"
    """Ranks that the others wait for."""


class Box(Struct, frozen=True, omit_defaults=True):
    """One box. `ranks` is compressed text; `first` a rank to look at."""

    id: str
    kind: BoxKind
    title: str
    detail: str = ""
    count: int = 0
    first: int | None = None
    column: int = 0
    """Its place from left (0) to right."""


class Arrow(Struct, frozen=True):
    """From one box to the one that it waits for."""

    source: str
    target: str


class Picture(Struct, frozen=True, omit_defaults=True):
    """The waiting; empty where the verdict is not about waiting."""

    boxes: tuple[Box, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    left_out: int = 0
    """Operations that are not shown because there are too many."""


def picture(snapshot: Snapshot, verdict: Verdict | None) -> Picture:
    """Draw who waits for whom, by the wait-for graph; what it lacks, by the verdict.

    Example:
        picture(incident.snapshot, incident.verdict).boxes
    """
    if verdict is None:
        return Picture()
    graph = build_graph(survey(snapshot))
    nodes = _nearest(graph, verdict)
    if not nodes:
        return _from_verdict(verdict)
    return _from_graph(graph, nodes, verdict)


def _nearest(graph: WaitGraph, verdict: Verdict) -> dict[int, int]:
    """Map the operations on the way to the culprits to their distance from them."""
    blamed, stuck = {one.rank for one in verdict.culprits}, verdict.stuck
    if not blamed:
        blamed = set((stuck.missing or stuck.waiting) if stuck else ())
    parents: defaultdict[int, list[int]] = defaultdict(list)
    for node in graph.nodes:
        for target in graph.edges[node]:
            parents[target].append(node)
    distance: dict[int, int] = {}
    far, edge = 0, set(blamed)
    while edge:
        fresh = _operations_before(edge, parents) - distance.keys()
        distance.update((node, far) for node in fresh if graph.waiters(node))
        edge = {rank for node in fresh for rank in graph.waiters(node)} - blamed
        blamed |= edge
        far += 1
    return distance


def _operations_before(ranks: set[int], parents: dict[int, list[int]]) -> set[int]:
    """Find the operations that wait for these ranks, also by way of an earlier operation."""
    found: set[int] = set()
    todo = [node for rank in ranks for node in parents.get(rank, ())]
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += [one for one in parents.get(node, ()) if one < 0]
    return found


def _from_graph(graph: WaitGraph, distance: dict[int, int], verdict: Verdict) -> Picture:
    order = sorted(distance, key=lambda node: (distance[node], -len(graph.waiters(node)), -node))
    shown = order[:MOST_OPERATIONS]
    columns = 2 * (max(distance[node] for node in shown) + 1)
    blamed = {one.rank: one for one in verdict.culprits}
    home = {rank: node for node in shown for rank in graph.waiters(node) if rank not in blamed}
    boxes: dict[str, Box] = {}
    arrows: dict[Arrow, None] = {}
    for node in shown:
        column = columns - 2 * distance[node] - 1
        waiters = graph.waiters(node)
        boxes[f"o{node}"] = _operation(graph, node, column)
        for rank in (rank for rank in waiters if rank in blamed):
            arrows[Arrow(_culprit(boxes, verdict, (rank,), columns), f"o{node}")] = None
        if plain := [rank for rank in waiters if rank not in blamed]:
            boxes[f"w{node}"] = _ranks(f"w{node}", plain, column - 1)
            arrows[Arrow(f"w{node}", f"o{node}")] = None
        targets = waited_for(graph, node)
        if hit := tuple(rank for rank in targets if rank in blamed):
            arrows[Arrow(f"o{node}", _culprit(boxes, verdict, hit, columns))] = None
        for other in dict.fromkeys(home[rank] for rank in targets if rank in home):
            if other != node:
                arrows[Arrow(f"o{node}", f"w{other}")] = None
    kept = tuple(one for one in arrows if one.source in boxes and one.target in boxes)
    return Picture(tuple(boxes.values()), kept, len(order) - len(shown))


def _operation(graph: WaitGraph, node: int, column: int) -> Box:
    head = graph.operation(node)
    if head.p2p:
        one = head.p2p[0]
        word = "from" if one.kind == "recv" else "to"
        peer = f"rank {one.peer}" if one.peer >= 0 else "any rank"
        return Box(f"o{node}", BoxKind.OPERATION, f"{one.kind} {word} {peer}", column=column)
    if head.call:
        return Box(f"o{node}", BoxKind.OPERATION, head.call, column=column)
    recorded = recorded_operation(graph, node)
    name = recorded[0].rsplit(":", 1)[-1] if recorded else "collective"
    group = graph.groups.get(head.group)
    title, detail = f"{name} #{head.number}", ""
    if group is not None:
        detail = f"{group_text(group.key[0], group.description)}, {len(group.members)} ranks"
    return Box(f"o{node}", BoxKind.OPERATION, title, detail, column=column)


def _ranks(name: str, ranks: list[int], column: int) -> Box:
    title = ranks_text(ranks)
    detail = "wait" if len(ranks) > 1 else "waits"
    return Box(name, BoxKind.WAITING, title, detail, len(ranks), min(ranks), column)


def _culprit(boxes: dict[str, Box], verdict: Verdict, ranks: tuple[int, ...], column: int) -> str:
    """Add a box for these culprits, or find the one there is."""
    name = f"c{numbers_text(ranks)}"
    first = next(one for one in verdict.culprits if one.rank == ranks[0])
    alike = {one.doing for one in verdict.culprits if one.rank in ranks}
    detail = first.doing if len(alike) == 1 else f"rank {first.rank} {first.doing}"
    title = ranks_text(ranks)
    boxes[name] = Box(name, BoxKind.CULPRIT, title, detail, len(ranks), ranks[0], column)
    return name


def _from_verdict(verdict: Verdict) -> Picture:
    """Draw the three boxes that a verdict itself tells of."""
    blamed = tuple(one.rank for one in verdict.culprits)
    stuck = verdict.stuck
    waiting = [r for r in (stuck.waiting if stuck else ()) or verdict.victims if r not in blamed]
    boxes: dict[str, Box] = {}
    if waiting:
        boxes["w"] = _ranks("w", waiting, 0)
    if stuck is not None:
        boxes["o"] = Box("o", BoxKind.OPERATION, *_words(stuck), column=1)
    if blamed:
        _culprit(boxes, verdict, blamed, 2)
    names = list(boxes)
    arrows = tuple(Arrow(one, other) for one, other in itertools.pairwise(names))
    return Picture(tuple(boxes.values()), arrows) if len(boxes) > 1 else Picture()


def _words(stuck: StuckOperation) -> tuple[str, str]:
    name = stuck.op.rsplit(":", 1)[-1]
    title = f"{name} #{stuck.number}" if stuck.number else name
    if not stuck.group:
        return title, ""
    return title, f"{group_text(stuck.group, stuck.description)}, {stuck.group_size} ranks"
