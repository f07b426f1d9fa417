"""A timeout says which rank has not arrived and what it is doing, from whatever is known."""

import dist_scenes as scenes
from ranks import play
from unstuck.dist.base.peers import Peer, missing_of, silent_of
from unstuck.dist.missing import blame


def test_a_busy_rank_is_found_in_its_line() -> None:
    found = play(3, scenes.absent, "busy")
    for rank in (0, 1):
        missing, silent, state, doing, says = found[rank]
        assert (missing, silent, state) == ([2], [], "running")
        assert doing.startswith("in wait_for at ranks.py:")
        assert f"Rank 2 has not arrived: {doing}" in says


def test_a_stopped_rank_is_named_as_stopped() -> None:
    found = play(3, scenes.absent, "stopped")
    missing, silent, state, doing, says = found[0]
    assert (missing, silent, state) == ([2], [], "stopped")
    assert "stopped, e.g. by SIGSTOP" in doing
    assert "timeout" in says


def test_a_dead_rank_is_named_and_the_others_continue_without_it() -> None:
    found = play(3, scenes.dies)
    assert found[2] == "exit -9"
    for rank in (0, 1):
        kind, notes, new_rank, size, total = found[rank]
        assert kind == "RuntimeError"
        assert "Rank 2 has not arrived: gone, its process" in notes
        assert (new_rank, size, total) == (rank, 2, 2.0)


def test_ranks_in_different_operations_are_reported() -> None:
    found = play(3, scenes.other_operation)
    assert "but not in the same one: rank 0 runs all_gather #4" in found[1]
    assert "rank 1 runs barrier #4" in found[0]


def test_a_rank_in_the_same_operation_of_another_group_has_not_arrived() -> None:
    assert play(3, scenes.same_operation_elsewhere)[0] == [1, 2]


def test_a_group_given_up_by_another_rank_is_a_timeout_too() -> None:
    found = play(3, scenes.given_up_by_another)
    assert found[1] == ((0,), [2], True)
    missing, spoiled = found[0]
    assert missing == "[2]"
    assert spoiled.startswith("GroupGivenUpError")


def test_the_groups_own_timeout_is_reported_as_such() -> None:
    says, missing, soon, barrier_says, barrier_missing = play(2, scenes.own_timeout_of_the_group)[0]
    assert missing == barrier_missing == [1]
    assert soon
    for words in (says, barrier_says):
        assert "Rank 1 has not arrived" in words
        assert "The group was ended by its own timeout: rebuild() it or leave." in words


def test_a_rank_that_waits_in_bare_torch_is_not_accused() -> None:
    assert play(3, scenes.waits_in_bare_torch)[0] == [2]


def test_the_agents_report_is_preferred() -> None:
    own = Peer(3, None, "no answer", state="silent")
    known = {"host": "node7", "doing": "holds the GIL", "line": 12, "state": "frozen"}
    seen = blame._with_agent(own, known)
    assert seen == Peer(3, None, "it holds the GIL", "node7", "", 12, "frozen")
    assert silent_of({3: seen}) == [3]
    assert missing_of({3: blame._with_agent(own, {"state": "left", "doing": "has left"})}) == [3]
