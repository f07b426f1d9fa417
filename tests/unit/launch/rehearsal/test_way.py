"""Machines go to each other two at a time; a way that is closed is said to be."""

import socket

import pytest

from unstuck.launch.rehearsal.way import Answers, measure, rounds


def test_a_way_over_the_loopback_is_short_and_wide_and_has_the_same_time() -> None:
    answers = Answers()
    try:
        found = measure("a", "b", "127.0.0.1", answers.port, full=True)
    finally:
        answers.close()

    assert not found.error
    assert 0 < found.round_trip < 1
    assert found.bandwidth > 1e6
    assert abs(found.clock_offset) < 1


def test_a_closed_port_is_an_error_with_its_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    found = measure("a", "b", "127.0.0.1", port, full=True)

    assert found.error == "connection refused"
    assert found.bandwidth == 0


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_all_pairs_meet_once_and_nobody_twice_at_the_same_time(count: int) -> None:
    plan = rounds(count)
    pairs = [pair for one in plan for pair in one]

    assert sorted(pairs) == [(a, b) for a in range(count) for b in range(a + 1, count)]
    for one in plan:
        ends = [end for pair in one for end in pair]
        assert len(ends) == len(set(ends))
