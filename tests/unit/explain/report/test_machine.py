"""The JSON form keeps its names and its order."""

import json

import msgspec

from unstuck.explain.report import machine
from unstuck.model.verdict import Cause, Confidence, Culprit, Verdict, VerdictFile

STOPPED = Verdict(
    cause=Cause.PROCESS_STOPPED,
    confidence=Confidence.CERTAIN,
    culprits=(Culprit(rank=3, host="node7", doing="is stopped (state T)", pid=4712),),
    victims=(0, 1, 2),
    since="2026-11-15T12:29:27+00:00",
)


def test_nothing_wrong_is_a_null_verdict() -> None:
    assert json.loads(machine.render(None)) == {"schema": "unstuck.verdict/1", "verdict": None}


def test_reads_back_as_the_same_verdict() -> None:
    text = machine.render(STOPPED)

    assert msgspec.json.decode(text, type=VerdictFile) == VerdictFile(STOPPED)


def test_schema_comes_first_and_the_frozen_names_follow_in_order() -> None:
    plain = json.loads(machine.render(STOPPED))
    frozen = ["cause", "confidence", "culprits", "victims", "since", "evidence"]
    frozen += ["alternatives", "records", "do", "dont"]

    assert list(plain) == ["schema", "verdict"]
    assert list(plain["verdict"])[: len(frozen)] == frozen
