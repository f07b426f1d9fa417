"""Interfering with an unfinished operation is refused or reported, never silent."""

import functools
from typing import Any

import dist_scenes as scenes
from ranks import play


@functools.cache
def seen() -> dict[str, Any]:
    return play(2, scenes.tensor_of_an_unfinished_call)[0]


def test_the_tensor_of_an_unfinished_reduction_is_refused() -> None:
    found = seen()
    for touched in ("same", "view, no timeout"):
        assert found[touched].startswith("TensorInUseError")
        assert "is still in use by all_reduce #2" in found[touched]
    assert found["result"] == [11.0] * 4


def test_writing_to_it_in_the_meantime_is_noticed() -> None:
    found = seen()
    assert "wrote to a tensor while all_reduce #3" in found["written meanwhile"]


def test_a_result_that_was_not_taken_is_not_reduced_again() -> None:
    found = seen()
    assert "the contents of the tensor are undefined: all_reduce #4" in found["completed unseen"]


def test_copies_stay_private_until_the_result_is_taken() -> None:
    found = play(2, scenes.copies)
    assert found[0]["after the timeout"] == [1.0] * 4
    assert "as they were before the call" in found[0]["says"]
    assert found[0]["after it completed"] == [1.0] * 4
    assert found[0]["next one"] == [101.0] * 4
    assert found[0]["first one, taken late"] == [11.0] * 4
    assert found[0]["sender's tensor"] == [0.0, 0.0]
    assert found[1]["received"] == [7.0, 7.0]
