"""Parts of the report."""

from hostile import incident
from unstuck.explain.report.incident import parts
from unstuck.explain.view.stack_tree import StackNode, StackTree


def test_only_colours_that_occur_are_in_the_legend():
    shown = parts.grid_legend(incident().job)

    assert "3 waiting in a collective" in shown
    assert "died" not in shown


def test_a_branch_of_few_ranks_stands_out():
    tree = incident(16).stacks

    shown = parts.stack_section(tree, 16)

    assert shown.count("frame few") == 1


def test_an_endless_tree_is_cut_and_says_so():
    calls = tuple(StackNode("a.py", n, "f", 1, str(n)) for n in range(parts.MOST_NODES + 50))

    shown = parts.stack_section(StackTree(calls, len(calls)), len(calls))

    assert shown.count("<li>") == parts.MOST_NODES
    assert "only the first" in shown


def test_the_operation_in_which_the_ranks_differ_is_marked():
    report = incident()

    shown = parts.rank_section(report.ranks[0])

    assert shown.count('class="differs"') == 1
    assert "rank 2 has begun 40 operations" in shown


def test_empty_facts_are_left_out():
    assert parts.facts(("a", "1"), ("b", "")) == (
        '<dl class="facts"><div><dt>a</dt><dd>1</dd></div></dl>'
    )
