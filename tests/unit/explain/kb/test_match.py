"""Lines are recognised by their anchors first and by their patterns then, however long they are."""

from time import process_time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.match import Matcher
from unstuck.explain.kb.schema import Record, Role
from unstuck.observe.logs.find.literals import HyperScanner, PlainScanner

CALM = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def matcher(kb: KnowledgeBase) -> Matcher:
    return Matcher(kb)


def test_confirm_names_record_role_and_fields(matcher: Matcher, barrier: Record) -> None:
    assert matcher.confirm(barrier.must_match[1]) == [
        (barrier.id, "root", {"missing": "4, 5, 6, 7", "timeout_ms": "30000"})
    ]


def test_group_that_did_not_take_part_is_left_out(matcher: Matcher, kb: KnowledgeBase) -> None:
    old = kb.records["nccl/watchdog"].must_match[1]
    [(_, _, fields)] = matcher.confirm(old)

    assert fields == {"op": "BROADCAST", "timeout_ms": "1800000", "ran_ms": "1808499"}


def test_anchor_without_the_pattern_is_no_match(matcher: Matcher) -> None:
    line = "it failed to pass monitoredBarrier in time"

    assert PlainScanner(matcher.literals).scan(line.encode())
    assert matcher.confirm(line) == []


def test_only_the_records_of_the_literals_found_are_tried(
    matcher: Matcher, barrier: Record
) -> None:
    line = barrier.must_match[0]
    found = {number for _, number in PlainScanner(matcher.literals).scan(line.encode())}
    others = set(range(len(matcher.literals))) - found

    assert [record for record, _, _ in matcher.confirm(line, found)] == [barrier.id]
    assert matcher.confirm(line, others) == []


def test_literals_of_records_that_change_no_verdict_are_not_looked_for(barrier: Record) -> None:
    def literals(**changes: object) -> int:
        return len(Matcher(KnowledgeBase([replace(barrier, **changes)])).literals)

    assert literals() == len(barrier.anchors)
    assert literals(role=Role.HARMLESS) == 0
    assert literals(role=Role.DIAGNOSTIC, category="memory") == 0
    assert literals(role=Role.DIAGNOSTIC, category="setting") == len(barrier.anchors)


def test_record_that_ignores_case_is_found_in_any(barrier: Record) -> None:
    loud = replace(barrier, patterns=tuple(f"(?i){p}" for p in barrier.patterns))
    line = barrier.must_match[0].upper()

    assert Matcher(KnowledgeBase([loud])).confirm(line)
    assert not Matcher(KnowledgeBase([barrier])).confirm(line)


def test_line_of_100_mb_takes_no_longer_than_searching_it(
    matcher: Matcher, barrier: Record
) -> None:
    line = "x" * 100_000_000 + barrier.must_match[0] + "y" * 1000
    began = process_time()

    assert matcher.confirm(line)
    assert process_time() - began < 5


def test_start_of_the_window_is_not_taken_for_the_start_of_the_line(barrier: Record) -> None:
    pattern = f"^{barrier.patterns[0]}"
    matcher = Matcher(KnowledgeBase([replace(barrier, patterns=(pattern,))]))

    assert matcher.confirm(barrier.must_match[0])
    assert not matcher.confirm(" " * 2000 + barrier.must_match[0])


def test_base_without_patterns_matches_nothing(kb: KnowledgeBase) -> None:
    matcher = Matcher(KnowledgeBase([kb.records["pytorch/barrier-timeout"]]))

    assert matcher.literals == []
    assert matcher.confirm("anything") == []


ANCHORS = ("abcdefgh", "cdefghij", "abcdefghij", "ABCDEFGH", "ghgh\u4e2dghgh", "\u212aelvinab")
LINE = st.lists(
    st.one_of(
        st.sampled_from([*ANCHORS, *(a.swapcase() for a in ANCHORS), "kelvinab"]),
        st.text(alphabet="abcdefghijABCK\u4e2d", max_size=6),
    ),
    max_size=10,
).map("".join)


@CALM
@given(
    line=LINE,
    wanted=st.lists(st.tuples(st.sampled_from(ANCHORS), st.booleans()), min_size=1, unique=True),
)
@example(line="xABCDEFGHIJ", wanted=[("abcdefgh", True), ("cdefghij", False)])
def test_what_a_line_matches_is_never_lost_by_looking_for_literals_first(
    barrier: Record, line: str, wanted: list[tuple[str, bool]]
) -> None:
    records = [
        replace(
            barrier, id=f"a/{n}", anchors=(anchor,), patterns=(("(?i)" if case else "") + anchor,)
        )
        for n, (anchor, case) in enumerate(wanted)
    ]
    matcher = Matcher(KnowledgeBase(records))
    for scanner in (HyperScanner, PlainScanner):
        hits = {number for _, number in scanner(matcher.literals).scan(line.encode())}
        assert sorted(matcher.confirm(line, hits)) == sorted(matcher.confirm(line))


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
    Matcher(kb).confirm(line)

    assert process_time() - began < 1
