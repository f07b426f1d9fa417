"""The three ways of waiting, on operations that really hang."""

import dist_scenes as scenes
from ranks import play


def test_every_way_of_waiting_ends_in_time_and_can_be_resumed() -> None:
    found = play(2, scenes.ways_of_waiting)[0]
    for name in ("native", "polled", "threaded"):
        waited, completed = found[name]
        assert 0.2 <= waited < 3.0, name
        assert completed, name


def test_a_limit_below_a_millisecond_is_not_taken_for_no_limit() -> None:
    assert play(2, scenes.shortest_limit)[0] < 3.0


def test_ctrl_c_gets_through_while_a_collective_waits() -> None:
    seconds, under_way = play(2, scenes.interrupted)[0]
    assert seconds < 5.0
    assert under_way == ["all_reduce"]


def test_helper_threads_are_reused() -> None:
    assert play(2, scenes.threads_used)[0] <= 2
