"""Stacks of many ranks become one tree that shows where they part."""

from unstuck.explain.report.stack_tree import lines, merge
from unstuck.model.rank import CodeLine

MAIN = CodeLine("/job/train.py", 40, "<module>")
STEP = CodeLine("/job/train.py", 31, "train")
REDUCE = CodeLine("/site-packages/torch/distributed/distributed_c10d.py", 3011, "all_reduce")
LOAD = CodeLine("/job/data.py", 12, "load")
READ = CodeLine("/job/data.py", 7, "read")


def test_ranks_in_the_same_calls_are_one_branch_and_the_odd_one_stands_out() -> None:
    stacks = dict.fromkeys(range(8), (REDUCE, STEP, MAIN)) | {3: (READ, LOAD, STEP, MAIN)}

    assert lines(merge(stacks)) == [
        "[8: 0-7]  <module> (train.py:40)",
        "train (train.py:31)",
        "├── [7: 0-2,4-7]  all_reduce (distributed_c10d.py:3011)",
        "└── [1: 3]  load (data.py:12)",
        "    read (data.py:7)",
    ]


def test_branches_within_branches_keep_their_lines_and_pure_ascii_is_possible() -> None:
    stacks = {0: (REDUCE, LOAD, MAIN), 1: (READ, LOAD, MAIN), 2: (STEP, MAIN)}

    assert lines(merge(stacks), unicode=False) == [
        "[3: 0-2]  <module> (train.py:40)",
        "|-- [2: 0,1]  load (data.py:12)",
        "|   |-- [1: 0]  all_reduce (distributed_c10d.py:3011)",
        "|   `-- [1: 1]  read (data.py:7)",
        "`-- [1: 2]  train (train.py:31)",
    ]


def test_a_rank_that_stands_in_a_call_which_others_have_gone_beyond_is_counted_there() -> None:
    [tree] = merge({0: (STEP, MAIN), 1: (REDUCE, STEP, MAIN), 2: ()})

    assert tree.ranks == (0, 1)
    assert tree.below[0].ranks == (0, 1)
    assert [one.ranks for one in tree.below[0].below] == [(1,)]
    assert lines([tree]) == [
        "[2: 0,1]  <module> (train.py:40)",
        "train (train.py:31)",
        "└── [1: 1]  all_reduce (distributed_c10d.py:3011)",
    ]


def test_the_same_function_at_another_line_is_another_branch() -> None:
    trees = merge({0: (MAIN,), 1: (CodeLine("/job/train.py", 41, "<module>"),)})

    assert [one.line.line for one in trees] == [40, 41]


def test_a_deep_stack_neither_takes_long_nor_wanders_to_the_right() -> None:
    deep = tuple(CodeLine("/job/walk.py", 9, "down") for _ in range(5_000))
    drawn = lines(merge({0: deep, 1: deep}))

    assert len(drawn) == 5_000
    assert max(map(len, drawn)) < 40
