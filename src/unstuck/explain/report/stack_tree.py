"""The stacks of all ranks as one tree: calls that several ranks share are one branch.

    [8: 0-7]  <module> (train.py:40)
    train (train.py:31)
    ├── [7: 0-2,4-7]  all_reduce (distributed_c10d.py:3011)
    └── [1: 3]  load (data.py:12)

Where a branch becomes thin, there is the rank that does something else.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from unstuck.console import clean
from unstuck.diagnose.text import numbers_text
from unstuck.model.rank import CodeLine

_Key = tuple[str, int, str]


@dataclass(slots=True)
class Branch:
    """One call, the ranks that are in it, and what it calls; most ranks first."""

    line: CodeLine
    ranks: tuple[int, ...]
    below: list["Branch"] = field(default_factory=list["Branch"])


def merge(stacks: Mapping[int, Sequence[CodeLine]]) -> list[Branch]:
    """Merge one stack a rank, each innermost frame first, into the tree of their common calls.

    Example:
        >>> main = CodeLine("train.py", 9, "main")
        >>> [tree] = merge({0: (CodeLine("a.py", 1, "f"), main), 1: (main,)})
        >>> tree.ranks, [one.ranks for one in tree.below]
        ((0, 1), [(0,)])
    """
    return _branches({rank: tuple(reversed(stack)) for rank, stack in stacks.items()}, 0)


def _branches(stacks: Mapping[int, tuple[CodeLine, ...]], depth: int) -> list[Branch]:
    found: list[Branch] = []
    shared = stacks
    # A loop down the calls that all share: only where ranks part is there a call of this function.
    attach = found
    while groups := _by_call(shared, depth):
        branches = [
            Branch(stacks_of[0][depth], tuple(sorted(ranks)))
            for ranks, stacks_of in groups.values()
        ]
        branches.sort(key=lambda one: (-len(one.ranks), one.ranks))
        attach += branches
        depth += 1
        if len(branches) > 1:
            for one in branches:
                one.below += _branches({rank: shared[rank] for rank in one.ranks}, depth)
            break
        attach = branches[0].below
        shared = {rank: shared[rank] for rank in branches[0].ranks}
    return found


def _by_call(
    stacks: Mapping[int, tuple[CodeLine, ...]], depth: int
) -> dict[_Key, tuple[list[int], list[tuple[CodeLine, ...]]]]:
    groups: dict[_Key, tuple[list[int], list[tuple[CodeLine, ...]]]] = {}
    for rank, stack in stacks.items():
        if depth < len(stack):
            line = stack[depth]
            ranks, same = groups.setdefault((line.file, line.line, line.function), ([], []))
            ranks.append(rank)
            same.append(stack)
    return groups


def lines(tree: Iterable[Branch], *, unicode: bool = True) -> list[str]:
    """Draw the tree, one call a line; ranks are named where they are fewer than in the call above.

    Example:
        print(*lines(merge(stacks)), sep=chr(10))
    """
    return [text for one in tree for text in _draw(one, "", "", None, unicode=unicode)]


def _draw(
    branch: Branch, first: str, rest: str, above: tuple[int, ...] | None, *, unicode: bool
) -> list[str]:
    drawn: list[str] = []
    # What calls one thing only goes on in the same column: stacks are deeper than lines are wide.
    while True:
        drawn.append(f"{first}{_words(branch, above)}")
        above, first = branch.ranks, rest
        if len(branch.below) != 1 or branch.below[0].ranks != branch.ranks:
            break
        branch = branch.below[0]
    tee, corner, bar = ("├── ", "└── ", "│   ") if unicode else ("|-- ", "`-- ", "|   ")
    for index, one in enumerate(branch.below):
        last = index == len(branch.below) - 1
        drawn += _draw(
            one,
            rest + (corner if last else tee),
            rest + ("    " if last else bar),
            above,
            unicode=unicode,
        )
    return drawn


def _words(branch: Branch, above: tuple[int, ...] | None) -> str:
    line = branch.line
    file = line.file.rsplit("/", 1)[-1]
    at = f"{file}:{line.line}" if line.line else file
    call = clean(f"{line.function} ({at})")
    if branch.ranks == above:
        return call
    return f"[{len(branch.ranks)}: {numbers_text(branch.ranks)}]  {call}"
