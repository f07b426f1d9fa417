"""Plain values come out as they went in; whatever could run code does not come out at all."""

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstuck.errors import DumpDamagedError, DumpError, DumpUnsafeError
from unstuck.observe.dumps.unpickle import MOST_NESTED, loads

GOLDEN = Path(__file__).parents[3] / "golden" / "dumps"

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**100), 2**100)
    | st.text()
    | st.floats(allow_nan=False)
)
plain = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=40,
)


class Evil:
    """Leaves a mark when something unpickles it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.mark),))


@given(value=plain, protocol=st.sampled_from([2, 3, 4, 5]))
def test_plain_values_come_out_as_python_itself_reads_them(value: object, protocol: int):
    assert loads(pickle.dumps(value, protocol)) == value


def test_tuples_come_out_as_lists():
    assert loads(pickle.dumps({"a": (), "b": (1,), "c": (1, 2, 3, 4)})) == {
        "a": [],
        "b": [1],
        "c": [1, 2, 3, 4],
    }


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*/trace_?")), ids=lambda f: f.parent.name)
def test_what_torch_wrote_is_read_as_python_itself_reads_it(file: Path):
    content = file.read_bytes()
    python = pickle.loads(content)
    for entry in python["entries"]:
        entry["process_group"] = list(entry["process_group"])
    assert loads(content) == python


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_would_call_something_is_refused_and_calls_nothing(
    protocol: int, tmp_path: Path
):
    mark = tmp_path / "mark"
    content = pickle.dumps({"version": "2.10", "entries": [Evil(mark)]}, protocol)

    with pytest.raises(DumpError):
        loads(content)
    assert not mark.exists()

    pickle.loads(content)
    assert mark.exists(), "the pickle was harmless, so the test shows nothing"


@pytest.mark.parametrize(
    "content",
    [
        b"cos\nsystem\n(S'id'\ntR.",
        b"\x80\x02cbuiltins\neval\n.",
        pickle.dumps(os.getcwd, 4),
        pickle.dumps(Path),
        b"\x80\x02}q\x00K\x01b.",
        b"(i__main__\nX\n.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02K\x01Q.",
    ],
)
def test_operations_that_load_or_call_code_are_named_in_the_refusal(content: bytes):
    with pytest.raises(DumpUnsafeError, match=r"would load or call code") as caught:
        loads(content)
    assert "torchfrtrace" in caught.value.hint


def test_the_module_that_a_hostile_pickle_asks_for_is_quoted_without_control_characters():
    with pytest.raises(DumpUnsafeError, match=r"GLOBAL os\?\[31m system"):
        loads(b"cos\x1b[31m\nsystem\n.")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\x80\x02}q", id="cut in a memo number"),
        pytest.param(b"\x80\x02X" + struct.pack("<I", 2**31) + b"abc", id="text longer than file"),
        pytest.param(b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"abc", id="absurd length"),
        pytest.param(b"\x80\x02h\x07.", id="a memo entry that is not there"),
        pytest.param(b"\x80\x02(((", id="only marks"),
        pytest.param(b"\x80\x02" + b"(" * 10_000 + b".", id="marks without end"),
        pytest.param(b"\x80\x02}]K\x01s.", id="a list as key"),
        pytest.param(b"\x80\x02K\x01K\x02a.", id="append to a number"),
        pytest.param(b"\x80\x02.", id="nothing left"),
        pytest.param(b"\x80\x02X\x02\x00\x00\x00\xff\xfe.", id="text that is not UTF-8"),
    ],
)
def test_damage_is_told_with_its_place(content: bytes):
    with pytest.raises(DumpDamagedError, match=r"cut short or damaged at byte \d+"):
        loads(content)


def test_a_memo_number_of_four_billion_costs_nothing():
    assert loads(b"\x80\x02K\x05r\xff\xff\xff\xff.") == 5


def test_tuples_nested_a_hundred_thousand_deep_cannot_be_a_key():
    deep = b"\x80\x02}" + b")" + b"\x85" * 100_000 + b"K\x01s."
    with pytest.raises(DumpDamagedError):
        loads(deep)


def test_torch_stays_far_below_the_limit_of_nesting():
    nested: list[Any] = []
    for _ in range(MOST_NESTED // 2):
        nested = [nested, 1]
    assert loads(pickle.dumps(nested)) == nested


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("absent/trace_?")), ids=lambda f: f.name)
def test_every_truncation_of_a_real_dump_is_told(file: Path):
    content = file.read_bytes()
    for length in range(0, len(content), 7):
        with pytest.raises(DumpDamagedError):
            loads(content[:length])
