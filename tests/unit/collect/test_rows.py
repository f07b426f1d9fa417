"""Structs as rows: whatever the model has comes back, defaults cost nothing."""

import msgspec
import pytest
from msgspec import Struct

from unstuck.collect.parts import Tables, kinds
from unstuck.collect.rows import Row
from unstuck.model.bounds import Number, Rank
from unstuck.model.rank import Phase


class Inner(Struct, frozen=True):
    """Something that ages."""

    age: Number = 0.0
    name: str = ""


class Outer(Struct, frozen=True, kw_only=True):
    """One field of each form."""

    rank: Rank
    phase: Phase = Phase.START
    waited: Number | None = None
    words: tuple[str, ...] | None = None
    settings: dict[str, str] = {}
    inner: Inner = Inner()
    many: tuple[Inner, ...] = ()


class Sent:
    """Numbers parts as an agent does."""

    def __init__(self) -> None:
        self.tables: Tables = [{0: one.empty} for one in kinds]

    def refer(self, kind: int, value: object) -> int:
        if not value:
            return 0
        self.tables[kind][len(self.tables[kind])] = value
        return len(self.tables[kind]) - 1


ROW = Row(Outer)
FULL = Outer(
    rank=3, phase=Phase.RUN, waited=0.25, words=("a", "b"), settings={"A": "1"},
    inner=Inner(1.5, "x"), many=(Inner(), Inner(2.0)),
)  # fmt: skip


@pytest.mark.parametrize("value", [FULL, Outer(rank=0), Outer(rank=1, many=(Inner(),))])
def test_struct_comes_back(value: Outer):
    sent = Sent()
    raw = msgspec.msgpack.encode(ROW.pack(value, sent))
    row = msgspec.msgpack.decode(raw, type=ROW.type)
    fields = {name: getattr(value, name) for name in Outer.__struct_fields__}
    assert ROW.values(row, sent.tables) == fields


def test_defaults_at_the_end_are_left_out():
    assert ROW.pack(Outer(rank=7), Sent()) == [7]
    assert ROW.pack(Outer(rank=7, waited=0.5), Sent())[:3] == [7, "start", 500_000]


@pytest.mark.parametrize("row", [[-1], [1 << 30], ["0"], [0, "start", 10**16], [0, "start", 0.5]])
def test_values_out_of_their_bounds_are_refused(row: list[object]):
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(row), type=ROW.type)
