"""The checker finds every way in which a record can be wrong, and only these."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from unstuck.explain.kb.check import check, gather
from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.schema import Confusion, Graph, Rate, Record, Role, Text, Tier
from unstuck.model.log import LogFact

GOOD = Text("Something", "某件事")


def problems(kb: KnowledgeBase, record: Record) -> list[str]:
    """Return what is wrong with the base when it has this record, as `field: message`."""
    records = {**kb.records, record.id: record}
    return [f"{p.field}: {p.message}" for p in check(records.values())]


def of_dead_end(**changes: object) -> Callable[[Record], Record]:
    return lambda record: replace(record, dead_ends=(replace(record.dead_ends[0], **changes),))


def of(**changes: object) -> Callable[[Record], Record]:
    return lambda record: replace(record, **changes)


def test_samples_are_right(kb: KnowledgeBase) -> None:
    assert check(kb.records.values()) == []


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
        (of(title=Text("A 东西", "东西")), "title.en: has Chinese characters"),
        (
            of(
                title=Text(
                    "x", "检查 the data loader on every rank and make sure that all have work"
                )
            ),
            "title.zh: has an English sentence in it; quote it or translate it",
        ),
        (of(os_notes={"linux": Text("A", "")}), "os_notes.linux.zh: is empty"),
        (of(anchors=()), "anchors: is empty"),
        (of(anchors=("Barrier",)), "anchors[0]: 'Barrier' is shorter than 8 characters"),
        (
            of(anchors=("RuntimeError:",)),
            "anchors[0]: 'RuntimeError:' stands in any log: take more of the message",
        ),
        (
            of(anchors=("distributed",)),
            "anchors[0]: 'distributed' stands in any log: take more of the message",
        ),
        (
            of(anchors=("failed to pass monitoredBarrier in ", "of another line")),
            "anchors[1]: 'of another line' is in no line of must_match",
        ),
        (
            of(anchors=("[Rank 0]: Ranks 4",)),
            "patterns[0]: can match a line that has none of the anchors, "
            "only ' failed to pass monitoredBarrier in '",
        ),
        (of(patterns=("(unclosed",)), "patterns[0]: does not compile: "),
        (of(patterns=(r"(a+)+ failed to pass monitoredBarrier in ",)), "patterns[0]: has a repeat"),
        (
            of(patterns=(r"in \d+ ms",)),
            "patterns[0]: needs no literal of 8 characters: it would match anything",
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
            "must_not_match[0]: is more than one line; patterns see one",
        ),
        (of(patterns=()), "patterns: is empty, but there are anchors or lines to match"),
        (
            of(facts=(LogFact.EARLY,)),
            "facts: is only for records that refine another one; causes have facts of their own",
        ),
        (
            of(role=Role.HARMLESS),
            "causes: a harmless record accuses nobody, but has busy-elsewhere, process-crash",
        ),
        (of(role=Role.DIAGNOSTIC), "causes: a diagnostic record accuses nobody, but has"),
        (of(causes=()), "causes: is empty: name the causes, or for a cascade what precedes it"),
        (of_dead_end(action=Text("", "")), "dead_ends[0].action.en: is empty"),
        (of_dead_end(why=Text("", "因为")), "dead_ends[0].why.en: is empty"),
        (of_dead_end(why=Text("Add more barriers", "因为")), "dead_ends[0].why: repeats"),
        (of_dead_end(sources=()), "dead_ends[0].sources: is empty: no claim without its source"),
        (of_dead_end(sources=()), "dead_ends[0].rate: counts reports that are not linked"),
        (of_dead_end(rate=Rate(0, 0)), "dead_ends[0].rate.runs: must be more than 0"),
        (of_dead_end(rate=Rate(3, 2)), "dead_ends[0].rate.successes: is 3 of 2 runs"),
        (of_dead_end(rate=Rate(-1, 2)), "dead_ends[0].rate.successes: is -1 of 2 runs"),
        (
            of_dead_end(rate=Rate(1, 2, kind="guessed")),
            "dead_ends[0].rate.kind: is 'guessed', must be measured or reported",
        ),
        (
            of_dead_end(rate=Rate(1, 2, kind="measured")),
            "dead_ends[0].rate: is measured: name the scenario and the torch version",
        ),
        (of(tier=Tier.MEASURED), "tier: is measured, but nothing in the record was"),
        (of(first_seen="May 2021"), "first_seen: is 'May 2021', must be a day such as 2026-05-20"),
        (of(first_seen="2027-01-01"), "first_seen: is later than the other dates"),
        (of(graph=Graph(leads_to=("a/b",))), "graph.leads_to[0]: there is no record a/b"),
        (of(graph=Graph(preceded_by=("a/b",))), "graph.preceded_by[0]: there is no record a/b"),
        (
            of(graph=Graph(confused_with=(Confusion("a/b", GOOD),))),
            "graph.confused_with[0]: there is no record a/b",
        ),
        (
            of(graph=Graph(leads_to=("gloo/monitored-barrier",))),
            "graph.leads_to[0]: leads to the record itself",
        ),
        (
            of(refines="nccl/watchdog"),
            "patterns: must be empty: nccl/watchdog is matched, this record refines it",
        ),
        (
            of(refines="nccl/watchdog"),
            "facts: is empty: without a fact nothing tells it from nccl/watchdog",
        ),
    ],
)
def test_wrong_record_is_told_with_the_field(
    kb: KnowledgeBase, barrier: Record, change: Callable[[Record], Record], expected: str
) -> None:
    assert [p for p in problems(kb, change(barrier)) if p.startswith(expected)]


def test_count_without_a_source_is_told(kb: KnowledgeBase, barrier: Record) -> None:
    bare = replace(barrier, causes=(replace(barrier.causes[0], sources=()),))

    assert problems(kb, bare) == ["causes[0].sources: 1 reports without one source"]


def test_unverified_record_may_claim_without_sources(kb: KnowledgeBase, barrier: Record) -> None:
    bare = replace(barrier.dead_ends[0], sources=(), rate=None)
    record = replace(barrier, dead_ends=(bare,), sources=(), tier=Tier.UNVERIFIED)

    assert problems(kb, record) == []


def test_record_to_be_read_only_needs_aliases_and_links(kb: KnowledgeBase) -> None:
    derived = kb.records["pytorch/barrier-timeout"]
    alone = replace(derived, refines="", facts=())

    assert problems(kb, alone) == []
    assert problems(kb, replace(alone, aliases=())) == [
        "patterns: is empty: such a record needs aliases, and links to other records"
    ]


def test_parent_of_a_refinement_needs_a_pattern(kb: KnowledgeBase) -> None:
    derived = kb.records["pytorch/barrier-timeout"]
    second = replace(derived, id="pytorch/second", refines=derived.id)

    assert problems(kb, second) == [
        "refines: pytorch/barrier-timeout has no pattern of its own, so it can never be refined"
    ]


def test_record_that_matches_lines_of_another_must_be_linked(
    kb: KnowledgeBase, barrier: Record
) -> None:
    twin = replace(barrier, id="gloo/twin", graph=Graph())
    messages = problems(kb, twin)
    assert f"patterns: match a line of {barrier.id}: {barrier.must_match[0]}" in messages

    linked = replace(twin, graph=Graph(confused_with=(Confusion(barrier.id, GOOD),)))
    assert problems(kb, linked) == []


def test_users_record_is_compared_with_ours(kb: KnowledgeBase, barrier: Record) -> None:
    twin = replace(barrier, id="gloo/twin", graph=Graph())
    found = check([twin], {"gloo/twin": "my/gloo/twin.toml"}, among=kb.records.values())

    assert {p.file for p in found} == {"my/gloo/twin.toml"}
    assert any(p.message == f"is also matched by {barrier.id}" for p in found)


def test_broken_files_are_told_and_the_others_still_read(directory: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(directory, mine)
    broken = mine / "nccl" / "watchdog.toml"
    broken.write_text(broken.read_text().replace('cause = "uneven-work"', 'cause = "bad-luck"'))
    (mine / "gloo" / "elsewhere.toml").write_text(
        (mine / "gloo" / "monitored-barrier.toml").read_text()
    )
    found = gather([mine])

    assert {r.id for r in found.records} == {"gloo/monitored-barrier", "pytorch/barrier-timeout"}
    messages = sorted(str(p).removeprefix(f"{mine}/") for p in found.problems)
    assert messages == [
        "gloo/elsewhere.toml:id: is gloo/monitored-barrier, must be gloo/elsewhere",
        f"gloo/monitored-barrier.toml:id: is also that of {mine}/gloo/elsewhere.toml",
        "nccl/watchdog.toml:causes[0].cause: Invalid enum value 'bad-luck'",
    ]
