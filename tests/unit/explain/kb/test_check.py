"""The checker finds every way in which a record can be wrong, and only these."""

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from unstuck.explain.kb.check import check, gather
from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.schema import Confusion, Graph, Record, Text

GOOD = Text("Something", "某件事")


def problems(kb: KnowledgeBase, record: Record) -> list[str]:
    """Return what is wrong with the base when it has this record, as `field: message`."""
    records = {**kb.records, record.id: record}
    return [f"{p.field}: {p.message}" for p in check(records.values())]


def test_samples_are_right(kb: KnowledgeBase) -> None:
    assert check(kb.records.values()) == []


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (Graph(leads_to=("a/b",)), "graph.leads_to[0]: there is no record a/b"),
        (Graph(preceded_by=("a/b",)), "graph.preceded_by[0]: there is no record a/b"),
        (
            Graph(confused_with=(Confusion("a/b", GOOD),)),
            "graph.confused_with[0]: there is no record a/b",
        ),
        (
            Graph(leads_to=("gloo/monitored-barrier",)),
            "graph.leads_to[0]: leads to the record itself",
        ),
    ],
)
def test_link_must_lead_to_another_record(
    kb: KnowledgeBase, barrier: Record, graph: Graph, expected: str
) -> None:
    assert expected in problems(kb, replace(barrier, graph=graph))


def test_rules_of_each_record_are_checked_as_well(kb: KnowledgeBase, barrier: Record) -> None:
    assert problems(kb, replace(barrier, signature=" ")) == ["signature: is empty"]


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


def test_broken_files_are_reported_and_the_others_read(directory: Path, tmp_path: Path) -> None:
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
