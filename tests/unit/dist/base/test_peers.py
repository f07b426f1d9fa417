"""What a timeout says about the other ranks."""

from unstuck.dist.base.peers import Peer, listed, missing_of, silent_of, summary


def test_a_rank_that_is_merely_silent_is_not_accused() -> None:
    peers = {
        1: Peer(1, came=True, state="running"),
        2: Peer(2, came=False, doing="in load at a.py:3", state="running"),
        3: Peer(3, came=None, doing="no answer", state="silent"),
        4: Peer(4, came=None, doing="gone, its process 5 has ended", state="gone"),
    }
    assert missing_of(peers) == [2, 4]
    assert silent_of(peers) == [3]
    assert summary(peers, "arrive") == (
        "Rank 2 has not arrived: in load at a.py:3."
        " Rank 4 has not arrived: gone, its process 5 has ended."
        " Nothing is known about rank 3 (no answer)."
    )


def test_many_missing_ranks_are_listed_briefly() -> None:
    peers = {rank: Peer(rank, came=False) for rank in range(20)}
    assert summary(peers, "arrive").endswith("12 more have not arrived: ranks 8-19.")
    assert listed([0, 1, 4]) == "0, 1, 4"
