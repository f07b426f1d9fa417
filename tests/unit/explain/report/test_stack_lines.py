"""The tree of all ranks' stacks shows on a terminal where they part."""

from unstuck.explain.report.stack_lines import draw
from unstuck.explain.view.stack_tree import merge_stacks
from unstuck.model.rank import CodeLine, Process, RankState
from unstuck.model.snapshot import Snapshot

MAIN = CodeLine("/job/train.py", 40, "<module>")
STEP = CodeLine("/job/train.py", 31, "train")
REDUCE = CodeLine("/site-packages/torch/distributed/distributed_c10d.py", 3011, "all_reduce")
LOAD = CodeLine("/job/data.py", 12, "load")
READ = CodeLine("/job/data.py", 7, "read\x1b[31m")


def drawn(*stacks: tuple[CodeLine, ...], unicode: bool = True) -> list[str]:
    ranks = tuple(
        RankState(rank, "a", Process(rank + 1), stack=stack) for rank, stack in enumerate(stacks)
    )
    return draw(merge_stacks(Snapshot(0.0, ranks=ranks)), unicode=unicode)


def test_the_odd_one_stands_out() -> None:
    usual, odd = (REDUCE, STEP, MAIN), (READ, LOAD, STEP, MAIN)

    assert drawn(*[usual] * 3, odd, *[usual] * 4) == [
        "[8: 0-7]  <module> (train.py:40)",
        "train (train.py:31)",
        "├── [7: 0-2,4-7]  all_reduce (distributed_c10d.py:3011)",
        "└── [1: 3]  load (data.py:12)",
        "    read[31m (data.py:7)",
    ]


def test_branches_within_branches_keep_their_lines_and_pure_ascii_is_possible() -> None:
    assert drawn((REDUCE, LOAD, MAIN), (READ, LOAD, MAIN), (STEP, MAIN), unicode=False) == [
        "[3: 0-2]  <module> (train.py:40)",
        "|-- [2: 0,1]  load (data.py:12)",
        "|   |-- [1: 0]  all_reduce (distributed_c10d.py:3011)",
        "|   `-- [1: 1]  read[31m (data.py:7)",
        "`-- [1: 2]  train (train.py:31)",
    ]
