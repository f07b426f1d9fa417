"""A timeout says which rank did not come and what it does instead, from whatever can be known."""

import dist_scenes as scenes
from ranks import play
from unstuck.dist import blame
from unstuck.dist.peers import Peer, listed, missing_of, silent_of, told


def test_a_busy_rank_is_found_in_its_line() -> None:
    found = play(3, scenes.absent, "busy")
    for rank in (0, 1):
        missing, silent, state, doing, says = found[rank]
        assert (missing, silent, state) == ([2], [], "running")
        assert doing.startswith("in hear at ranks.py:")
        assert f"Rank 2 did not come: {doing}" in says


def test_a_stopped_rank_is_named_as_stopped() -> None:
    found = play(3, scenes.absent, "stopped")
    missing, silent, state, doing, says = found[0]
    assert (missing, silent, state) == ([2], [], "stopped")
    assert "stopped, as by SIGSTOP" in doing
    assert "timeout" in says


def test_a_dead_rank_is_named_and_the_others_go_on_without_it() -> None:
    found = play(3, scenes.dies)
    assert found[2] == "exit -9"
    for rank in (0, 1):
        kind, notes, new_rank, size, total = found[rank]
        assert kind == "RuntimeError"
        assert "Rank 2 did not come: gone, its process" in notes
        assert (new_rank, size, total) == (rank, 2, 2.0)


def test_ranks_in_different_operations_are_told_so() -> None:
    found = play(3, scenes.other_operation)
    assert "but not in the same: rank 0 runs all_gather #4" in found[1]
    assert "rank 1 runs barrier #4" in found[0]


def test_a_rank_in_the_same_operation_of_another_group_did_not_come() -> None:
    assert play(3, scenes.same_operation_elsewhere)[0] == [1, 2]


def test_a_group_given_up_by_another_rank_is_a_timeout_too() -> None:
    found = play(3, scenes.given_up_by_another)
    assert found[1] == ((0,), [2], True)
    missing, spoiled = found[0]
    assert missing == "[2]"
    assert spoiled.startswith("GroupGivenUpError")


def test_the_groups_own_timeout_is_told_as_such() -> None:
    says, missing, soon, barrier_says, barrier_missing = play(2, scenes.own_timeout_of_the_group)[0]
    assert missing == barrier_missing == [1]
    assert soon
    for words in (says, barrier_says):
        assert "Rank 1 did not come" in words
        assert "The group was ended by its own timeout: rebuild() it or leave." in words


def test_a_rank_that_waits_in_bare_torch_is_not_accused() -> None:
    assert play(3, scenes.waits_in_bare_torch)[0] == [2]


def test_the_agents_words_come_before_our_own() -> None:
    own = Peer(3, None, "no answer", state="silent")
    known = {"host": "node7", "doing": "holds the GIL", "line": 12, "state": "frozen"}
    seen = blame._with_agent(own, known)
    assert seen == Peer(3, None, "it holds the GIL", "node7", "", 12, "frozen")
    assert silent_of({3: seen}) == [3]
    assert missing_of({3: blame._with_agent(own, {"state": "left", "doing": "has left"})}) == [3]


def test_nobody_is_accused_who_is_only_silent() -> None:
    peers = {
        1: Peer(1, came=True, state="running"),
        2: Peer(2, came=False, doing="in load at a.py:3", state="running"),
        3: Peer(3, came=None, doing="no answer", state="silent"),
        4: Peer(4, came=None, doing="gone, its process 5 has ended", state="gone"),
    }
    assert missing_of(peers) == [2, 4]
    assert silent_of(peers) == [3]
    assert told(peers, "come") == (
        "Rank 2 did not come: in load at a.py:3."
        " Rank 4 did not come: gone, its process 5 has ended."
        " Nothing is known of rank 3 (no answer)."
    )


def test_many_missing_ranks_are_listed_shortly() -> None:
    peers = {rank: Peer(rank, came=False) for rank in range(20)}
    assert told(peers, "come").endswith("12 more did not come: ranks 8-19.")
    assert listed([0, 1, 4]) == "0, 1, 4"
