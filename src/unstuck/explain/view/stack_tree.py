"""The main threads' stacks of all ranks, merged into one prefix tree, as STAT does for MPI.

Ranks that are at the same place share a branch; where one leaves the others, the tree forks. Of
most ranks only the innermost frames are known. Where another rank's whole stack shows how the
script gets to the outermost of them, it is hung in there; `StackTree.inferred` says of how many.
"""

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from unstuck.diagnose.text import numbers_text
from unstuck.model.rank import CodeLine, RankState
from unstuck.model.snapshot import Snapshot

_FRAME = re.compile(r'File "(.+)", line (\d+) in (.+)')
_LIBRARY = re.compile(r"/(site|dist)-packages/|/lib/python3|^<")
_MOST_DEPTH = 60
_Key = tuple[str, int, str]


class StackNode(Struct, frozen=True, omit_defaults=True):
    """One frame and all ranks that are in it, or in what it calls."""

    file: str
    line: int
    function: str
    count: int
    ranks: str
    """Compressed: `0-6,8`."""
    text: str = ""
    user: bool = False
    here: int = 0
    """How many of them are in this very frame and not in what it calls."""
    calls: tuple["StackNode", ...] = ()
    """Most ranks first."""


class StackTree(Struct, frozen=True, omit_defaults=True):
    """The stacks of all ranks of which one is known."""

    roots: tuple[StackNode, ...] = ()
    count: int = 0
    """Ranks in the tree."""
    unknown: str = ""
    """The others, compressed."""
    inferred: int = 0
    """Ranks whose outer frames are those of another rank in the same function."""


class _Node:
    def __init__(self) -> None:
        self.frame: CodeLine | None = None
        self.ranks: list[int] = []
        self.here = 0
        self.calls: dict[_Key, _Node] = {}


def merge_stacks(snapshot: Snapshot) -> StackTree:
    """Merge the main threads' stacks of all ranks.

    Example:
        merge_stacks(snapshot).roots[0].count
    """
    alike: dict[tuple[CodeLine, ...], list[int]] = {}
    for state in snapshot.ranks:
        alike.setdefault(stack_of(state), []).append(state.rank)
    unknown = alike.pop((), [])
    outer = _outer_frames(alike)
    root, inferred = _Node(), 0
    for stack, ranks in alike.items():
        before = outer.get((stack[0].file, stack[0].function), ())
        inferred += len(ranks) if before else 0
        _add(root, (*before, *stack)[:_MOST_DEPTH], ranks)
    count = sum(map(len, alike.values()))
    lost = numbers_text(unknown) if unknown else ""
    return StackTree(_frozen(root), count, lost, inferred)


def stack_of(state: RankState) -> tuple[CodeLine, ...]:
    """Return the main thread's stack, outermost first, as far out as it is known."""
    inner = tuple(reversed(state.stack))
    whole = _whole(state.threads) or tuple(replace(one, user=True) for one in state.route)
    if not whole:
        return inner
    for place, frame in enumerate(inner):
        # The newest frames are those of `stack`; what led there is the rest.
        for index in range(len(whole) - 1, -1, -1):
            if (whole[index].file, whole[index].function) == (frame.file, frame.function):
                return (*whole[:index], *inner[place:])
    return inner or whole


def _whole(threads: Iterable[str]) -> tuple[CodeLine, ...]:
    """Read the main thread's frames from what faulthandler wrote, outermost first."""
    for text in threads:
        if text.startswith(("Current thread", "Thread")) and "<module>" in text:
            found = (_FRAME.search(line) for line in text.splitlines())
            frames = [
                CodeLine(one[1], int(one[2]), one[3], user=not _LIBRARY.search(one[1]))
                for one in found
                if one
            ]
            return tuple(reversed(frames))
    return ()


def _outer_frames(
    stacks: Iterable[tuple[CodeLine, ...]],
) -> dict[tuple[str, str], tuple[CodeLine, ...]]:
    """Map each function of the script to what led to it, where a whole stack shows it."""
    found: dict[tuple[str, str], tuple[CodeLine, ...]] = {}
    for stack in stacks:
        if stack[0].function == "<module>":
            for index, frame in enumerate(stack[1:], 1):
                found.setdefault((frame.file, frame.function), stack[:index])
    return found


def _add(root: _Node, stack: tuple[CodeLine, ...], ranks: list[int]) -> None:
    node = root
    for frame in stack:
        node = node.calls.setdefault((frame.file, frame.line, frame.function), _Node())
        if node.frame is None or (frame.text and not node.frame.text):
            node.frame = frame
        node.ranks += ranks
    node.here += len(ranks)


def _frozen(node: _Node) -> tuple[StackNode, ...]:
    ordered = sorted(node.calls.values(), key=lambda one: (-len(one.ranks), one.ranks))
    return tuple(_freeze(one.frame, one) for one in ordered if one.frame)


def _freeze(frame: CodeLine, node: _Node) -> StackNode:
    return StackNode(
        file=frame.file,
        line=frame.line,
        function=frame.function,
        count=len(node.ranks),
        ranks=numbers_text(node.ranks),
        text=frame.text.strip(),
        user=frame.user,
        here=node.here,
        calls=_frozen(node),
    )


def walk(nodes: Iterable[StackNode], depth: int = 0) -> Iterator[tuple[int, StackNode]]:
    """Yield every node with its depth, as a tree is printed.

    Example:
        for depth, node in walk(tree.roots): print("  " * depth + node.function, node.ranks)
    """
    for node in nodes:
        yield depth, node
        yield from walk(node.calls, depth + 1)
