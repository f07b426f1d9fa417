"""Nothing that an unfinished operation still uses can be mixed up without a word."""

import dist_scenes as scenes
from ranks import play


def test_the_tensor_of_an_unfinished_reduction_is_refused() -> None:
    found = play(2, scenes.tensor_of_an_unfinished_call)[0]
    for touched in ("same", "view, no timeout"):
        assert found[touched].startswith("TensorInUseError")
        assert "still belongs to all_reduce #2" in found[touched]
    assert found["result"] == [11.0] * 4


def test_writing_into_it_meanwhile_does_not_go_unnoticed() -> None:
    found = play(2, scenes.tensor_of_an_unfinished_call)[0]
    assert "wrote into a tensor while all_reduce #3" in found["written meanwhile"]


def test_a_result_that_nobody_took_is_not_reduced_a_second_time() -> None:
    found = play(2, scenes.tensor_of_an_unfinished_call)[0]
    assert "what the tensor holds is not known: all_reduce #4" in found["completed unseen"]


def test_private_copies_stay_private_until_the_result_is_taken() -> None:
    found = play(2, scenes.copies)
    assert found[0]["after the timeout"] == [1.0] * 4
    assert "as they were before the call" in found[0]["says"]
    assert found[0]["after it completed"] == [1.0] * 4
    assert found[0]["next one"] == [101.0] * 4
    assert found[0]["first one, taken late"] == [11.0] * 4
    assert found[0]["sender's tensor"] == [0.0, 0.0]
    assert found[1]["received"] == [7.0, 7.0]
