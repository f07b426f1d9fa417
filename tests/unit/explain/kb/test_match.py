"""Lines are found among millions of others and recognised, with and without hyperscan."""

import sys
from time import perf_counter, process_time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.match import Matcher
from unstuck.explain.kb.schema import Record

CALM = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=[True, False], ids=["hyperscan", "plain"])
def matcher(request: pytest.FixtureRequest, kb: KnowledgeBase) -> Matcher:
    return Matcher(kb, hyperscan=request.param)


def test_scan_gives_each_line_once_with_its_record(matcher: Matcher, barrier: Record) -> None:
    line = barrier.must_match[1]
    data = f"step 1\r\n{line} {line}\r\nstep 2\n{line}".encode()
    first, second = matcher.scan(data)

    assert data[first.start : first.end].decode() == f"{line} {line}\r"
    assert data[second.start : second.end].decode() == line
    assert first.record == second.record == barrier.id


def test_scan_of_nothing_finds_nothing(matcher: Matcher) -> None:
    assert matcher.scan(b"") == []
    assert matcher.scan(b"\n\n\xff\xfe\n") == []


def test_confirm_names_the_fields(matcher: Matcher, barrier: Record) -> None:
    [(record, fields)] = matcher.confirm(barrier.must_match[1])

    assert record is barrier
    assert fields == {"missing": "4, 5, 6, 7", "timeout_ms": "30000"}


def test_group_that_did_not_take_part_is_left_out(matcher: Matcher, kb: KnowledgeBase) -> None:
    old = kb.records["nccl/watchdog"].must_match[1]
    [(_, fields)] = matcher.confirm(old)

    assert fields == {"op": "BROADCAST", "timeout_ms": "1800000", "ran_ms": "1808499"}


def test_anchor_without_the_pattern_is_only_a_candidate(matcher: Matcher) -> None:
    line = "it failed to pass monitoredBarrier in time"

    assert matcher.scan(line.encode())
    assert matcher.confirm(line) == []


def test_only_the_records_asked_for_are_tried(matcher: Matcher, barrier: Record) -> None:
    assert matcher.confirm(barrier.must_match[0], ["nccl/watchdog"]) == []
    assert matcher.confirm(barrier.must_match[0], [barrier.id])


def test_record_that_ignores_case_is_found_in_any(barrier: Record) -> None:
    loud = replace(barrier, patterns=tuple(f"(?i){p}" for p in barrier.patterns))
    line = barrier.must_match[0].upper()
    for fast in (True, False):
        matcher = Matcher(KnowledgeBase([loud]), hyperscan=fast)

        assert [c.record for c in matcher.scan(line.encode())] == [barrier.id]
        assert matcher.confirm(line)
    assert not Matcher(KnowledgeBase([barrier])).scan(line.encode())


def test_line_of_100_mb_takes_no_longer_than_reading_it(kb: KnowledgeBase, barrier: Record) -> None:
    line = "x" * 100_000_000 + barrier.must_match[0] + "y" * 1000
    matcher = Matcher(kb, hyperscan=True)
    began = perf_counter()

    assert len(matcher.scan(line.encode())) == 1
    assert matcher.confirm(line)
    assert perf_counter() - began < 5


def test_start_of_the_window_is_not_taken_for_the_start_of_the_line(barrier: Record) -> None:
    pattern = f"^{barrier.patterns[0]}"
    matcher = Matcher(KnowledgeBase([replace(barrier, patterns=(pattern,))]))

    assert matcher.confirm(barrier.must_match[0])
    assert not matcher.confirm(" " * 2000 + barrier.must_match[0])


def test_base_without_patterns_matches_nothing(kb: KnowledgeBase) -> None:
    empty = KnowledgeBase([kb.records["pytorch/barrier-timeout"]])
    for fast in (True, False):
        assert Matcher(empty, hyperscan=fast).scan(b"anything") == []
        assert Matcher(empty, hyperscan=fast).confirm("anything") == []


ANCHORS = ("abcdefgh", "cdefghij", "abcdefghij", "ABCDEFGH", "ghgh\u4e2dghgh", "\u212aelvinab")
TEXT = st.lists(
    st.one_of(
        st.sampled_from([*ANCHORS, *(a.swapcase() for a in ANCHORS), "\n", "\r\n", "kelvinab"]),
        st.text(alphabet="abcdefghijABCK\n\u4e2d", max_size=6),
    ),
    max_size=40,
).map("".join)


@CALM
@given(
    text=TEXT,
    wanted=st.lists(st.tuples(st.sampled_from(ANCHORS), st.booleans()), min_size=1, unique=True),
)
@example(text="xABCDEFGHIJ\nabcdefghij", wanted=[("abcdefgh", True), ("cdefghij", False)])
def test_both_ways_of_scanning_agree(
    barrier: Record, text: str, wanted: list[tuple[str, bool]]
) -> None:
    records = [
        replace(
            barrier, id=f"a/{n}", anchors=(anchor,), patterns=(("(?i)" if case else "") + anchor,)
        )
        for n, (anchor, case) in enumerate(wanted)
    ]
    kb = KnowledgeBase(records)
    fast, plain = (Matcher(kb, hyperscan=choice) for choice in (True, False))
    found = fast.scan(text.encode())

    assert found == plain.scan(text.encode())
    lines = {c[:2] for c in found}
    place = 0
    for line in text.encode().split(b"\n"):
        confirmed = {record.id for record, _ in plain.confirm(line.decode())}
        candidates = {c.record for c in found if c.start == place}
        assert confirmed <= candidates
        assert candidates == set() or (place, place + len(line)) in lines
        place += len(line) + 1


@CALM
@given(
    st.lists(
        st.one_of(
            st.text(max_size=20),
            st.sampled_from(
                [
                    "failed to pass monitoredBarrier in ",
                    "[Rank 0]: Ranks ",
                    "0, " * 300,
                    "Watchdog caught collective operation timeout: WorkNCCL(",
                    "SeqNum=1, OpType=",
                    "A" * 3000,
                    "\ud800",
                    "\x00",
                ]
            ),
        ),
        max_size=30,
    ).map("".join)
)
def test_confirm_never_raises_and_stays_fast(kb: KnowledgeBase, line: str) -> None:
    began = process_time()
    Matcher(kb, hyperscan=False).confirm(line)

    assert process_time() - began < 1


def test_hyperscan_that_does_not_load_is_done_without(
    kb: KnowledgeBase, barrier: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hyperscan", None)
    found = Matcher(kb, hyperscan=True).scan(barrier.must_match[0].encode())

    assert [candidate.record for candidate in found] == [barrier.id]
