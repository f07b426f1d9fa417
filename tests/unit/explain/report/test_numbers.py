"""Numbers and lists read well."""

import pytest

from unstuck.diagnose.text import numbers_text
from unstuck.explain.report import numbers
from unstuck.model.verdict import StuckOperation


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([3, 1, 0], "0,1,3"),
        ([5], "5"),
        ([], "none"),
        (range(512), "0-511"),
        ([r for r in range(512) if r != 17], "0-511 except 17"),
        ([r for r in range(1024) if r not in (17, 511, 900)], "0-1023 except 17,511,900"),
        ([0, 1, 4, 5], "0,1,4,5"),
        (range(0, 40, 2), "0,2,4,6,8,10,... (20 in all)"),
    ],
)
def test_ranks_are_compressed(numbers: list[int], text: str) -> None:
    assert numbers_text(numbers) == text


@pytest.mark.parametrize(
    ("sizes", "dtypes", "text"),
    [
        (((1024, 1024),), ("Float",), "1,048,576 elements (4 MiB) float32"),
        (((1,),), ("Long",), "1 element (8 bytes) int64"),
        (((64,), (128,)), ("BFloat16",), "2 tensors, 192 elements (384 bytes) bfloat16"),
        (((3,), (3,)), ("Float", "Int"), "2 tensors, 6 elements (24 bytes) float32/int32"),
        (((5,),), ("Float8_e4m3fn",), "5 elements Float8_e4m3fn"),
        (((),), ("Double",), "1 element (8 bytes) float64"),
        ((), (), ""),
    ],
)
def test_sizes_count_elements_and_bytes(
    sizes: tuple[tuple[int, ...], ...], dtypes: tuple[str, ...], text: str
) -> None:
    stuck = StuckOperation("all_reduce", 1, "0", 2, sizes=sizes, dtypes=dtypes)

    assert numbers.size(stuck) == text


def test_moment_that_is_none_is_shown_as_it_is() -> None:
    assert numbers.clock("2026-11-15T12:30:01.250Z") == "12:30:01"
    assert numbers.clock("yesterday") == "yesterday"


def test_long_path_loses_its_beginning_but_never_the_line() -> None:
    text = numbers.place("/very/long/way/to/the/train.py", 31, "load", room=30)

    assert text == ".../to/the/train.py:31 in load"
    assert len(text) <= 30


@pytest.mark.parametrize("room", [20, 30, 45, 69])
def test_place_always_fits_its_room(room: int) -> None:
    text = numbers.place("/a/" + "b" * 90 + ".py", 123456, "f" * 90, room=room)

    assert len(text) <= room
    assert ":123456" in text
