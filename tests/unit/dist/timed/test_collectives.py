"""Calls with a timeout give the same results as torch, or say which ranks are missing."""

import functools
from typing import Any

import pytest
import torch.distributed

import dist_scenes as scenes
from ranks import play
from unstuck import dist

TENSORS = [op for op in scenes.COMMON if "object" not in op]


def test_everything_else_is_torchs_own() -> None:
    assert dist.ReduceOp is torch.distributed.ReduceOp
    assert dist.get_rank is torch.distributed.get_rank
    assert set(dir(torch.distributed)) <= set(dir(dist))
    with pytest.raises(AttributeError, match=r"unstuck\.dist.*no_such_thing"):
        _ = dist.no_such_thing


@functools.cache
def results_of_torch() -> dict[int, Any]:
    return play(3, scenes.results, scenes.COMMON, {})


def tensors_only(results: dict[int, Any]) -> dict[int, Any]:
    return {rank: {op: found[op] for op in TENSORS} for rank, found in results.items()}


def test_with_a_timeout_the_results_are_those_without() -> None:
    bare = results_of_torch()
    assert bare[0]["all_reduce"] == [6.0, 6.0]
    for how in ({"timeout": 20}, {"timeout": 20.0, "copy": True}):
        assert play(3, scenes.results, scenes.COMMON, how) == bare


def test_asynchronous_handles_have_the_limit_too() -> None:
    bare = tensors_only(results_of_torch())
    for copy in (False, True):
        how = {"timeout": 20, "async_op": True, "copy": copy}
        assert play(3, scenes.results, TENSORS, how) == bare


@pytest.mark.parametrize(
    ("asynchronous", "much"),
    [(False, 10.0), (False, 0.0), (True, 10.0)],
    ids=["prepared before the call", "prepared when it takes long", "by a handle"],
)
def test_a_late_rank_is_named_in_every_operation_and_the_result_still_arrives(
    asynchronous: bool, much: float
) -> None:
    bare = results_of_torch()
    timeout = 0.1
    late_in_each = functools.partial(scenes.late_in_each, asynchronous=asynchronous, much=much)
    found = play(3, late_in_each, TENSORS, timeout)
    # A rank that only sends does not wait for the late one.
    givers = {("broadcast", 0), ("broadcast", 1), ("gather", 1), ("reduce", 1), ("scatter", 1)}
    for rank in (0, 1):
        for op in TENSORS:
            late, result = found[rank][op]
            assert result == bare[rank][op], op
            if late is None:
                assert (op, rank) in givers | {("scatter", 0), ("reduce", 0), ("gather", 0)}
                continue
            seconds, missing, name, words = late
            assert (missing, name) == ([2], op), words
            assert timeout <= seconds < timeout + 3, (op, seconds)


def test_an_object_collective_holds_its_group_until_it_is_complete() -> None:
    found = play(2, scenes.late_to_objects)
    untouched, busy, things, missing, works_again = found[0]
    assert untouched == [None, None]
    assert "all_gather_object #2 is still running" in busy
    assert things == [{"rank": 0}, {"rank": 1}]
    assert (missing, works_again) == ([1], 2.0)


def test_more_timeouts_in_flight_than_gloo_has_threads() -> None:
    found = play(3, scenes.many_in_flight, 12)
    assert found[0] == found[1] == found[2] == [3.0 * i + 3 for i in range(12)]


@pytest.mark.parametrize("size", [1, 8])
def test_worlds_of_any_size(size: int) -> None:
    found = play(
        size, scenes.results, ["all_reduce", "all_gather_object", "barrier"], {"timeout": 20}
    )
    assert found[size - 1]["all_reduce"] == [size * (size + 1) / 2] * 2
    assert len(found[0]["all_gather_object"]) == size


def test_everything_works_in_a_world_of_one() -> None:
    found = play(1, scenes.alone)[0]
    assert (found["all_reduce"], found["deadline"], found["rebuilt"]) == ([1.0, 1.0], 1.0, 1.0)


def test_a_deadline_gives_each_operation_the_remaining_time() -> None:
    took, allowed, not_started, says, value = play(2, scenes.deadlines)[0]
    assert 0.5 <= took < 3.5
    assert allowed < 0.5
    assert not_started
    assert "timeout" in says
    assert "before it was started" in says
    assert value == 4.0


def test_completion_that_races_with_the_timeout_is_never_lost() -> None:
    assert play(2, scenes.race, 60)[0] >= 0


def test_overlapping_groups_waited_for_by_several_threads() -> None:
    found = play(3, scenes.threads)[0]
    assert found == {0: ([1], 2.0), 1: ([2], 2.0), 2: ([1, 2], 3.0)}


def test_misuse_is_reported_with_the_name_of_the_argument() -> None:
    said = play(1, scenes.wrong_use)[0]
    assert (
        said["negative"] == "ValueError: timeout must be a finite number of seconds above 0, not -1"
    )
    assert said["zero"].startswith("ValueError: timeout must be")
    assert said["nan"].startswith("ValueError: timeout must be")
    assert said["text"].startswith("TypeError: timeout must be a number of seconds or a timedelta")
    assert said["bool"].startswith("TypeError: timeout must be")
    assert said["group"].startswith("TypeError: group must be a process group")
    assert said["destroyed"].startswith("ValueError: group is unknown to torch.distributed")
    assert said["survivors"].startswith("ValueError: survivors must be ranks")
    assert said["not in it"].startswith("ValueError: survivors: 5 not in the group")
    assert said["deadline"].startswith("ValueError: seconds must be")
