"""Tarjan's strongly connected components without recursion."""

from collections.abc import Mapping, Sequence


def components(edges: Mapping[int, Sequence[int]], roots: Sequence[int]) -> list[list[int]]:
    """List the strongly connected components reachable from the roots, sinks first."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    found: list[list[int]] = []
    for root in roots:
        if root in index:
            continue
        work = [(root, iter(edges.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(edges.get(target, ()))))
                    break
                if target in on_stack and index[target] < low[node]:
                    low[node] = index[target]
            else:
                work.pop()
                if work and low[node] < low[work[-1][0]]:
                    low[work[-1][0]] = low[node]
                if low[node] == index[node]:
                    found.append(_pop_component(stack, on_stack, node))
    return found


def _pop_component(stack: list[int], on_stack: set[int], root: int) -> list[int]:
    component: list[int] = []
    while True:
        node = stack.pop()
        on_stack.discard(node)
        component.append(node)
        if node == root:
            return component
