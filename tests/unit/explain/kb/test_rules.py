"""The rules for one record find every way in which it can be wrong, and only these."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.rules import COMMON, check_record
from unstuck.explain.kb.schema import Rate, Record, Role, Text, Tier
from unstuck.model.logs import LogFact


def problems(record: Record) -> list[str]:
    return [f"{field}: {message}" for field, message in check_record(record)]


def of_dead_end(**changes: object) -> Callable[[Record], Record]:
    return lambda record: replace(record, dead_ends=(replace(record.dead_ends[0], **changes),))


def of(**changes: object) -> Callable[[Record], Record]:
    return lambda record: replace(record, **changes)


def test_samples_follow_every_rule(kb: KnowledgeBase) -> None:
    assert [p for record in kb.records.values() for p in problems(record)] == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (of(domain="nccl"), "domain: is nccl, but the id begins with gloo"),
        (of(signature=" "), "signature: is empty"),
        (of(category=""), "category: is empty"),
        (of(confidence="sure"), "confidence: is 'sure', must be certain, likely, possible"),
        (of(tags=("",)), "tags: has an empty entry"),
        (of(title=Text("", "某")), "title.en: is empty"),
        (of(title=Text("A thing", "")), "title.zh: is empty"),
        (of(title=Text("A thing", "A thing")), "title.zh: is not Chinese"),
        (of(title=Text("A thing", "Another thing")), "title.zh: is not Chinese"),
        (of(title=Text("A 东西", "东西")), "title.en: contains Chinese characters"),
        (
            of(
                title=Text(
                    "x", "检查 the data loader on every rank and make sure that all have work"
                )
            ),
            "title.zh: contains an English sentence; quote it or translate it",
        ),
        (of(os_notes={"linux": Text("A", "")}), "os_notes.linux.zh: is empty"),
        (of(anchors=()), "anchors: is empty"),
        (of(anchors=("Barrier",)), "anchors[0]: 'Barrier' is shorter than 8 characters"),
        (
            of(anchors=("RuntimeError:",)),
            "anchors[0]: 'RuntimeError:' is in any log: use more of the message",
        ),
        (
            of(anchors=("distributed",)),
            "anchors[0]: 'distributed' is in any log: use more of the message",
        ),
        (
            of(anchors=("failed to pass monitoredBarrier in ", "of another line")),
            "anchors[1]: 'of another line' is in no line of must_match",
        ),
        (
            of(anchors=("[Rank 0]: Ranks 4",)),
            "patterns[0]: can match a line without any of the anchors, "
            "only ' failed to pass monitoredBarrier in '",
        ),
        (of(patterns=("(unclosed",)), "patterns[0]: does not compile: "),
        (of(patterns=(r"(a+)+ failed to pass monitoredBarrier in ",)), "patterns[0]: has a repeat"),
        (
            of(patterns=(r"in \d+ ms",)),
            "patterns[0]: requires no literal of 8 characters: it would match anything",
        ),
        (
            of(patterns=(r"failed to pass monitoredBarrier in (?P<x>[a-z]+)",)),
            "patterns[0]: matches no line of must_match",
        ),
        (of(must_match=()), "must_match: is empty"),
        (of(must_not_match=()), "must_not_match: is empty"),
        (
            of(must_match=("Rank 1 failed to pass monitoredBarrier in 2 h",)),
            "must_match[0]: is not matched by this record: Rank 1 failed",
        ),
        (
            of(must_not_match=("[Rank 0]: Rank 1 failed to pass monitoredBarrier in 2 ms",)),
            "must_not_match[0]: is matched by this record: [Rank 0]",
        ),
        (
            of(must_not_match=("two\nlines",)),
            "must_not_match[0]: has several lines; patterns see one",
        ),
        (of(patterns=()), "patterns: is empty, but there are anchors or lines to match"),
        (
            of(facts=(LogFact.EARLY,)),
            "facts: is only for records that refine another; put facts into the causes",
        ),
        (
            of(role=Role.HARMLESS),
            "causes: a harmless record must not name causes: busy-elsewhere, process-crash",
        ),
        (of(role=Role.DIAGNOSTIC), "causes: a diagnostic record must not name causes:"),
        (of(causes=()), "causes: is empty: list the causes, or what precedes a cascade"),
        (of_dead_end(action=Text("", "")), "dead_ends[0].action.en: is empty"),
        (of_dead_end(why=Text("", "因为")), "dead_ends[0].why.en: is empty"),
        (of_dead_end(why=Text("Add more barriers", "因为")), "dead_ends[0].why: repeats"),
        (of_dead_end(sources=()), "dead_ends[0].sources: is empty: every claim needs a source"),
        (of_dead_end(sources=()), "dead_ends[0].rate: counts reports without links"),
        (of_dead_end(rate=Rate(0, 0)), "dead_ends[0].rate.runs: must be more than 0"),
        (of_dead_end(rate=Rate(3, 2)), "dead_ends[0].rate.successes: is 3 of 2 runs"),
        (of_dead_end(rate=Rate(-1, 2)), "dead_ends[0].rate.successes: is -1 of 2 runs"),
        (
            of_dead_end(rate=Rate(1, 2, kind="guessed")),
            "dead_ends[0].rate.kind: is 'guessed', must be measured or reported",
        ),
        (
            of_dead_end(rate=Rate(1, 2, kind="measured")),
            "dead_ends[0].rate: is measured: give the scenario and the torch version",
        ),
        (of(tier=Tier.MEASURED), "tier: is measured, but the record has no measured rate"),
        (of(first_seen="May 2021"), "first_seen: is 'May 2021', must be a date such as 2026-05-20"),
        (of(first_seen="2027-01-01"), "first_seen: is later than the other dates"),
        (
            of(refines="nccl/watchdog"),
            "patterns: must be empty: nccl/watchdog is matched, and this record refines it",
        ),
        (
            of(refines="nccl/watchdog"),
            "facts: is empty: nothing distinguishes it from nccl/watchdog",
        ),
    ],
)
def test_wrong_record_is_reported_with_the_field(
    barrier: Record, change: Callable[[Record], Record], expected: str
) -> None:
    assert [p for p in problems(change(barrier)) if p.startswith(expected)]


def test_count_without_a_source_is_reported(barrier: Record) -> None:
    bare = replace(barrier, causes=(replace(barrier.causes[0], sources=()),))

    assert problems(bare) == ["causes[0].sources: 1 reports without a source"]


def test_unverified_record_may_claim_without_sources(barrier: Record) -> None:
    bare = replace(barrier.dead_ends[0], sources=(), rate=None)
    record = replace(barrier, dead_ends=(bare,), sources=(), tier=Tier.UNVERIFIED)

    assert problems(record) == []


def test_record_to_be_read_only_needs_aliases_and_links(kb: KnowledgeBase) -> None:
    derived = kb.records["pytorch/barrier-timeout"]
    alone = replace(derived, refines="", facts=())

    assert problems(alone) == []
    assert problems(replace(alone, aliases=())) == [
        "patterns: is empty: then aliases and links to other records are needed"
    ]


@pytest.mark.parametrize("word", ["keyerror", "timeouterror", "exception", "timed out", "oserror"])
def test_what_any_program_prints_is_no_anchor(word: str) -> None:
    assert word in COMMON
