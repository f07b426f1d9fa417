"""Numbers outside the bounds are refused where they are decoded, every one of them."""

import math
import typing
from types import UnionType
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from unstuck.collect.compact import Library, Packer, Unpacker, read_ranks
from unstuck.model import bounds
from unstuck.model.frame import Frame
from unstuck.model.rank import Process, RankState, Tempo
from unstuck.model.snapshot import Snapshot

ABSURD = (math.nan, math.inf, -math.inf, 1e12, -1e300)


def arrived(**fields: Any) -> RankState:
    """Return a rank as a hub reads it from a frame."""
    state = RankState(0, "h", Process(1), **fields)
    sent = Packer().pack(Frame(node="h/1", host="h", number=1, sent_at=0.0, ranks=(state,)))
    reader = Unpacker(Library())
    reader.learn(sent.parts, begins=sent.begins)
    return read_ranks(sent.ranks, reader.tables)[0]


def plain_numbers(kind: Any, seen: set[Any], path: str) -> list[str]:
    """List the fields of a struct, and of those in it, that are a float without bounds."""
    if kind is float:
        return [path]
    if typing.get_origin(kind) in (tuple, dict, list, UnionType, typing.Union):
        return [p for one in typing.get_args(kind) for p in plain_numbers(one, seen, path)]
    if not isinstance(kind, type) or not issubclass(kind, msgspec.Struct) or kind in seen:
        return []
    seen.add(kind)
    hints = typing.get_type_hints(kind, include_extras=True)
    return [p for n, h in hints.items() for p in plain_numbers(h, seen, f"{kind.__name__}.{n}")]


def test_every_float_that_travels_has_bounds() -> None:
    """A new field shall be `Number` or `Moment`, not `float`."""
    seen: set[Any] = set()
    assert plain_numbers(Snapshot, seen, "") + plain_numbers(Frame, seen, "") == []


@pytest.mark.parametrize("value", ABSURD)
@pytest.mark.parametrize("field", ["stalled_for", "beat_age", "gone_for", "tempo"])
def test_a_frame_with_an_absurd_number_is_refused(field: str, value: float) -> None:
    fields: dict[str, Any] = {field: value}
    if field == "gone_for":
        fields = {"process": Process(1, gone_for=value)}
    if field == "tempo":
        fields = {"tempo": Tempo(own=value)}
    state = replace(RankState(0, "h", Process(1)), **fields)
    raw = msgspec.msgpack.encode(state)
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(raw, type=RankState)


def test_a_world_that_no_machine_could_count_out_is_refused() -> None:
    with pytest.raises(ConnectionError):
        arrived(world_size=50_000_000)


def test_what_a_healthy_rank_sends_passes() -> None:
    state = arrived(world_size=100_000, stalled_for=86_400.0 * 365)
    assert (state.world_size, state.stalled_for) == (100_000, 86_400.0 * 365)


def test_bounded() -> None:
    assert bounds.bounded(math.nan) == 0.0
    assert bounds.bounded(-math.inf) == -bounds.LONGEST
    assert bounds.bounded(3.5) == 3.5
