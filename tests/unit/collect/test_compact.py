"""Frames come out as they went in, what stays the same travels once, and lies are refused."""

import contextlib
import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from unstuck.collect.compact import (
    Library,
    Packed,
    Packer,
    UnknownPartError,
    Unpacker,
    read_node,
    read_ranks,
)
from unstuck.collect.parts import Part, digest
from unstuck.lab.simulate import draw, snapshot
from unstuck.model.frame import Frame
from unstuck.model.host import OtherProcess, PeerLink, Pressure
from unstuck.model.rank import (
    CodeLine,
    Failure,
    GroupProgress,
    LongPlace,
    Pace,
    Phase,
    Process,
    ProcessState,
    RankSettings,
    RankState,
    Tempo,
)

LINE = CodeLine("train.py", 31, "main", "loss.backward()", user=True)
FULL = RankState(
    3,
    "训练",
    Process(7, ProcessState.STOPPED, "do_signal_stop", 0.25, cores=(0, 2, 4), exit_code=-9),
    attempt="a",
    world_size=4,
    phase=Phase.RUN,
    section_left=-0.5,
    places=("train.py:31 in main",),
    pace=Pace(9, 0.1, 0.25, places=(LongPlace("train.py:90", 2, 31.5),)),
    tempo=Tempo(20, 0.1, delayed=0.001, place=LINE),
    groups=(GroupProgress("0", (0, 1, 2, 3), 12, 11, "default_pg", "gloo", timeout=1800.0),),
    stack=(LINE, LINE),
    loops=(),
    failure=Failure("ValueError", "no", 0.5, LINE),
    threads=("x" * 2000,),
    settings=RankSettings(300.0, {"NCCL_DEBUG": "INFO"}),
)
NODE = Frame(
    "h/1",
    "h",
    1,
    12.5,
    (FULL,),
    pressure=Pressure(0.5, others=(OtherProcess(1, "stress", 2.5),), unseen=("steal",)),
    links=(PeerLink("b/1", "b", 0.1, None, 0.000123), PeerLink("c/1", "c", suspect=True)),
    launcher_exit=-15,
    stopping=True,
)


class Pair:
    """An agent and a hub with nothing between them."""

    def __init__(self, library: Library | None = None) -> None:
        self.packer = Packer()
        self.unpacker = Unpacker(library or Library())
        self.sent: Packed | None = None
        self.asked = 0

    def carry(self, frame: Frame) -> Frame:
        sent = self.sent = self.packer.pack(frame)
        wanted = self.unpacker.learn(sent.parts, begins=sent.begins)
        self.asked += len(wanted)
        if wanted:
            assert self.unpacker.lacks
            self.unpacker.learn(self.packer.bodies(wanted), begins=False)
        assert not self.unpacker.lacks
        tables = self.unpacker.tables
        ranks = read_ranks(sent.ranks, tables)
        node = read_node(sent.node, tables)
        return Frame(frame.node, frame.host, frame.number, frame.sent_at, ranks, **node)


def test_frame_comes_out_as_it_went_in():
    pair = Pair()
    for _ in range(3):
        assert pair.carry(NODE) == NODE


@pytest.mark.parametrize("seed", range(20))
def test_simulated_jobs_survive(seed: int):
    ranks = snapshot(draw(seed, ahead=seed % 6)).ranks
    pair = Pair()
    for start in range(0, len(ranks), 8):
        frame = Frame("h/1", "h", 1, 0.0, ranks[start : start + 8])
        assert pair.carry(frame) == frame


def test_what_stays_the_same_travels_once():
    pair = Pair()
    pair.carry(NODE)
    assert pair.sent is not None
    assert pair.sent.parts
    later = replace(FULL, stalled_for=7.5, step=12)
    moved = replace(later, stack=(replace(LINE, line=32),))
    for ranks, parts in (((FULL, later), 0), ((moved,), 1), ((FULL, moved), 0)):
        frame = replace(NODE, ranks=ranks)
        assert pair.carry(frame) == frame
        assert len(pair.sent.parts) == parts


def test_members_of_a_large_group_reach_a_hub_once_and_not_once_per_node():
    members = tuple(random.Random(1).sample(range(100_000), 5_000))
    library = Library()
    read: list[tuple[int, ...]] = []
    asked: list[int] = []
    for node in range(3):
        pair = Pair(library)
        group = GroupProgress("0", tuple(members), 1, 1)
        frame = Frame(f"h{node}/1", "h", 1, 0.0, (RankState(0, "h", Process(1), groups=(group,)),))
        read.append(pair.carry(frame).ranks[0].groups[0].ranks)
        asked.append(pair.asked)
    assert read == [members] * 3
    assert asked == [1, 0, 0]
    assert read[0] is read[1] is read[2]


def test_group_without_a_timeout_is_not_given_that_of_another():
    pair = Pair()
    groups = (GroupProgress("0", (0,), 1, 1, timeout=5.0), GroupProgress("1", (0,), 1, 1))
    frame = replace(NODE, ranks=(replace(FULL, groups=groups),))
    assert pair.carry(frame) == frame


def test_steady_frame_is_small_in_a_job_of_any_size():
    """Some 200 bytes a rank, with four groups, a tempo, a pace and a stack."""
    sizes: list[float] = []
    for world in (1_000, 100_000):
        groups = tuple(
            GroupProgress(name, tuple(range(0, world, step)), 90_000, 89_998, name, "nccl",
                          timeout=600.0)
            for name, step in (("world", 1), ("tp", 2), ("dp", 8), ("pp", 16))
        )  # fmt: skip
        rank = RankState(
            world - 1, "node-1234", Process(712_345, ProcessState.SLEEPING, "futex", 0.87,
                    rss=1 << 33),
            attempt="x", age=90_000.123, world_size=world, phase=Phase.RUN, step=123_456,
            beat_age=0.067, stalled_for=0.312, places=("train.py:31",), lines=3, in_flight=True,
            pace=Pace(12_345, 0.123, 1.534, 0.4, 0.51, 3.2),
            tempo=Tempo(50, 0.512, 0.201, 0.003, 0.2, 0.001, 0.002), groups=groups,
            stack=(LINE, LINE), settings=RankSettings(300.0, {"A": "1"}),
        )  # fmt: skip
        pair = Pair()
        frame = Frame("h/1", "h", 1, 0.0, (rank,) * 8)
        pair.carry(frame)
        assert pair.carry(frame) == frame
        assert pair.sent is not None
        sizes.append(len(bytes(pair.sent.ranks)) / 8)
    assert sizes[1] < 210
    assert sizes[1] - sizes[0] < 10


def test_agent_whose_parts_never_repeat_begins_anew_and_is_still_understood():
    pair = Pair()
    begun = 0
    for number in range(6_000):
        line = replace(LINE, line=number)
        frame = Frame("h/1", "h", number, 0.0, (replace(FULL, stack=(line,)),))
        got = pair.carry(frame)
        assert pair.sent is not None
        begun += pair.sent.begins
        if number % 1_000 == 0 or pair.sent.begins:
            assert got == frame
    assert begun == 2
    assert sum(map(len, pair.unpacker.tables)) < 5_000


def test_part_that_does_not_match_its_digest_is_refused():
    unpacker = Unpacker(Library())
    assert unpacker.learn([Part(0, 1, digest=digest(b"one"))], begins=False) == ((0, 1),)
    with pytest.raises(ConnectionError, match="does not match"):
        unpacker.learn([Part(0, 1, msgspec.msgpack.encode("two"))], begins=False)


def test_reference_to_what_was_never_sent_is_refused():
    sent = Packer().pack(NODE)
    with pytest.raises(UnknownPartError):
        read_ranks(sent.ranks, Unpacker(Library()).tables)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_frames_are_refused_or_read_and_nothing_else(data: st.DataObject):
    pair = Pair()
    pair.carry(NODE)
    assert pair.sent is not None
    raw = bytearray(bytes(pair.sent.ranks))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ConnectionError):
        read_ranks(Raw(bytes(raw)), pair.unpacker.tables)


@settings(max_examples=300, deadline=None)
@given(st.integers(-1, 9), st.integers(-1, 9_000), st.binary(max_size=40))
def test_damaged_parts_are_refused_or_read_and_nothing_else(kind: int, number: int, body: bytes):
    with contextlib.suppress(ConnectionError):
        Unpacker(Library()).learn([Part(kind, number, body)], begins=False)
