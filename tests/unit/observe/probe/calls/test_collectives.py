"""Two real ranks whose torch records nothing: their collectives are seen all the same."""

from collections.abc import Iterator
from typing import Any

import pytest

from children import until
from pairs import Pair, started

SECOND = "dist.all_gather([torch.ones(2, 3), torch.ones(2, 3)], torch.ones(2, 3)) and None"


@pytest.fixture(scope="module")
def unrecorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with started(tmp_path_factory.mktemp("unrecorded"), {"TORCH_FR_BUFFER_SIZE": "0"}) as pair:
        yield pair


def calls(pair: Pair, rank: int = 0) -> list[dict[str, Any]]:
    return pair.page(rank).report["calls"]


def test_calls_stand_on_the_page_as_the_recorder_would_have_them(unrecorded: Pair):
    unrecorded.both("dist.all_reduce(torch.ones(7)) and None")
    unrecorded.both(SECOND)
    unrecorded.both("dist.barrier()")
    unrecorded.settle()
    last = calls(unrecorded)[-3:]

    assert [entry["profiling_name"] for entry in last] == [
        "gloo:all_reduce",
        "gloo:all_gather",
        "gloo:barrier",
    ]
    assert [entry["input_sizes"] for entry in last] == [[[7]], [[2, 3]], []]
    assert [entry["input_dtypes"] for entry in last] == [["Float"], ["Float"], []]
    assert {entry["process_group"][0] for entry in last} == {"0"}
    numbers = [entry["collective_seq_id"] for entry in last]
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]
    assert unrecorded.done(0) == numbers[-1]


def test_collective_that_waits_is_in_flight_until_the_other_rank_comes(unrecorded: Pair):
    unrecorded.ranks[0].tell("dist.all_reduce(torch.ones(5, dtype=torch.int64)) and None")
    until(lambda: in_flight(unrecorded) == 1)
    waiting = calls(unrecorded)[-1]
    assert (waiting["retired"], waiting["input_dtypes"]) == (False, ["Long"])

    unrecorded.ranks[1].do("dist.all_reduce(torch.ones(5, dtype=torch.int64)) and None")
    unrecorded.ranks[0].answer()
    until(lambda: in_flight(unrecorded) == 0)
    assert calls(unrecorded)[-1]["retired"]


def in_flight(pair: Pair) -> int:
    enqueued, completed = pair.page(0).report["status"]["0"]
    return enqueued - completed


def test_what_ddp_calls_in_c_is_seen(unrecorded: Pair):
    unrecorded.both("ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))")
    unrecorded.both("ddp(torch.ones(2, 4)).sum().backward()")
    until(lambda: any(is_gradient(entry) for entry in calls(unrecorded)))


def is_gradient(entry: dict[str, Any]) -> bool:
    return (entry["profiling_name"], entry["input_sizes"]) == ("gloo:all_reduce", [[20]])


def test_root_of_a_broadcast_is_known_as_well(unrecorded: Pair):
    unrecorded.both("dist.broadcast(torch.ones(3), 1)")
    until(lambda: unrecorded.page(0).report["roots"]["0"][-1] == ["broadcast", 1])
    assert calls(unrecorded)[-1]["profiling_name"] == "gloo:broadcast"


def test_finished_calls_do_not_keep_their_tensors(unrecorded: Pair):
    unrecorded.both("import weakref")
    unrecorded.both("big = torch.ones(1000); known = weakref.ref(big); dist.all_reduce(big)")
    unrecorded.both("del big")
    until(lambda: unrecorded.ranks[0].do("known() is None"))
