"""The tree of all ranks' stacks, drawn for a terminal.

[8: 0-7]  <module> (train.py:40)
train (train.py:31)
├── [7: 0-2,4-7]  all_reduce (distributed_c10d.py:3011)
└── [1: 3]  load (data.py:12)
"""

from unstuck.console import clean
from unstuck.explain.view.stack_tree import StackNode, StackTree


def draw(tree: StackTree, *, unicode: bool = True) -> list[str]:
    """Draw a tree, one call a line; ranks are named where they are others than in the call above.

    Example:
        draw(merge_stacks(snapshot))
    """
    return [line for node in tree.roots for line in _draw(node, "", "", "", unicode=unicode)]


def _draw(node: StackNode, first: str, rest: str, above: str, *, unicode: bool) -> list[str]:
    drawn: list[str] = []
    # What all of them call goes on in the same column: stacks are deeper than screens are wide.
    while True:
        drawn.append(f"{first}{_words(node, above)}")
        above, first = node.ranks, rest
        if len(node.calls) != 1 or node.calls[0].ranks != node.ranks:
            break
        node = node.calls[0]
    tee, corner, bar = ("├── ", "└── ", "│   ") if unicode else ("|-- ", "`-- ", "|   ")
    for index, one in enumerate(node.calls):
        last = index == len(node.calls) - 1
        head, below = (corner, "    ") if last else (tee, bar)
        drawn += _draw(one, rest + head, rest + below, above, unicode=unicode)
    return drawn


def _words(node: StackNode, above: str) -> str:
    file = node.file.rsplit("/", 1)[-1]
    at = f"{file}:{node.line}" if node.line else file
    call = clean(f"{node.function} ({at})")
    return call if node.ranks == above else f"[{node.count}: {node.ranks}]  {call}"
