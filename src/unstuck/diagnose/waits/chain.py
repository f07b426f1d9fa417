"""Operations and the chain of waiting, in words."""

from unstuck.diagnose.text import number_text, ranks_text
from unstuck.diagnose.waits.graph import WaitGraph
from unstuck.model.rank import PointToPoint
from unstuck.model.verdict import StuckOperation

_MOST_ASKED = 64
_MOST_LINES = 12


def stuck_operation(graph: WaitGraph, node: int, missing: tuple[int, ...]) -> StuckOperation:
    """Describe the operation of a node as the verdict shows it."""
    head, waiting = graph.operation(node), tuple(graph.waiters(node))
    group = graph.groups.get(head.group)
    size = len(group.members) if group else 0
    description = group.description if group else ""
    if head.p2p:
        one = head.p2p[0]
        return StuckOperation(
            one.kind, one.ordinal, head.group[0], size, description, (), (), waiting, missing
        )
    if head.call:
        return StuckOperation(head.call, 0, "", 0, waiting=waiting, missing=missing)
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
    for rank in graph.waiters(node)[:_MOST_ASKED]:
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
    if head.call:
        return head.call
    recorded = recorded_operation(graph, node)
    size = len(graph.groups[head.group].members)
    name = recorded[0] if recorded else "collective"
    return f"{name}{number_text(head.number)} of group {head.group[0]} ({size} ranks)"


def _p2p_text(one: PointToPoint) -> str:
    word = "from" if one.kind == "recv" else "to"
    return f"{one.kind} {word} " + (f"rank {one.peer}" if one.peer >= 0 else "any rank")


def chain_lines(graph: WaitGraph, behind: dict[int, int]) -> tuple[str, ...]:
    """Write one line per operation on the way to the sink, the farthest first."""
    nodes = [node for node in behind if node < 0 and graph.waiters(node)]
    nodes.sort(key=lambda node: (behind[node], -node))
    lines: list[str] = []
    for node in nodes[:_MOST_LINES]:
        targets = [rank for rank in waited_for(graph, node) if rank in behind]
        line = f"{ranks_text(graph.waiters(node))} wait in {operation_text(graph, node)}"
        if len(graph.waiters(node)) == 1:
            line = line.replace(" wait in ", " waits in ", 1)
        lines.append(line + (f" for {ranks_text(targets)}" if targets else ""))
    if len(nodes) > _MOST_LINES:
        lines.append(f"{len(nodes) - _MOST_LINES} more operations wait behind these")
    return tuple(reversed(lines))


def waited_for(graph: WaitGraph, node: int) -> list[int]:
    """List the ranks that the operation of a node waits for."""
    found: list[int] = []
    todo = [node]
    while todo:
        for target in graph.edges.get(todo.pop(), ()):
            (found if target >= 0 else todo).append(target)
    return found
