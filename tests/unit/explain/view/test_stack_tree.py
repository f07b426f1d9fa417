"""All ranks' stacks as one tree."""

from scenes import job, one_sleeps, user
from unstuck.explain.view.stack_tree import merge_stacks, stack_of, walk
from unstuck.model.rank import CodeLine

WHOLE = """Thread 0x1 (most recent call first):
  File "train.py", line 31 in evaluate
  File "train.py", line 60 in train
  File "train.py", line 90 in <module>"""


def test_ranks_at_the_same_place_share_a_branch():
    tree = merge_stacks(one_sleeps(8).snapshot())

    assert tree.count == 8
    assert [(d, n.function, n.count, n.ranks) for d, n in walk(tree.roots)] == [
        (0, "train", 7, "0,1,3-7"),
        (1, "all_reduce", 7, "0,1,3-7"),
        (0, "evaluate", 1, "2"),
    ]


def test_where_a_whole_stack_shows_the_way_the_others_are_hung_in_there():
    scene = one_sleeps(4).change(2, threads=(WHOLE,))

    tree = merge_stacks(scene.snapshot())

    assert [(d, n.function, n.line, n.ranks) for d, n in walk(tree.roots)] == [
        (0, "<module>", 90, "0-3"),
        (1, "train", 20, "0,1,3"),
        (2, "all_reduce", 2800, "0,1,3"),
        (1, "train", 60, "2"),
        (2, "evaluate", 31, "2"),
    ]
    assert tree.inferred == 3


def test_a_rank_without_a_stack_is_said_to_be_unknown():
    tree = merge_stacks(job(3).change(1, stack=()).snapshot())

    assert (tree.count, tree.unknown) == (2, "1")


def test_the_newest_frames_are_those_of_the_page():
    state = one_sleeps(4).change(2, threads=(WHOLE,), stack=(user("x()", 33, "evaluate"),))

    assert [frame.line for frame in stack_of(state.states[2])] == [90, 60, 33]
    assert stack_of(job(1).change(0, stack=(), route=(CodeLine("a", 1, "f"),)).states[0])
