"""A bug in unstuck is said once, kept for a report, and does not end the watching."""

from collections.abc import Callable
from pathlib import Path

import pytest

from scenes import NOW, job, one_sleeps
from unstuck.collect import bundle
from unstuck.diagnose import diagnose as diagnosing
from unstuck.diagnose.case import Case
from unstuck.diagnose.finding import Finding
from unstuck.diagnose.ladder import LADDER, Rule
from unstuck.model.requests import EvidenceRequest
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Cause
from unstuck.pipelines.live import Pipeline
from unstuck.pipelines.own_bugs import FOLDER, OwnBugs


def broken_rule(_case: Case) -> list[Finding] | None:
    raise IndexError("list index out of range")


@pytest.fixture(autouse=True)
def with_a_bug(monkeypatch: pytest.MonkeyPatch, bugs_are_survived: None) -> None:
    ladder = (Rule("a rule with a bug", broken_rule, ""), *LADDER)
    monkeypatch.setattr(diagnosing.diagnose, "__defaults__", (ladder,))


def test_the_other_rules_still_judge_and_the_bug_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = Pipeline(tmp_path, ["torchrun", "train.py"], "host0")
    for _ in range(3):
        pipeline.judge(one_sleeps().snapshot())
    said = capsys.readouterr().err
    assert said.count("a bug in unstuck: 'a rule with a bug' failed (IndexError") == 1
    assert bundle.read(tmp_path).verdict is not None
    assert bundle.read(tmp_path / "incident-1").snapshot.ranks
    kept = bundle.read(tmp_path / FOLDER)
    assert kept.snapshot.taken_at == NOW
    assert "broken_rule" in kept.about["trace"]


def test_what_is_left_of_the_verdict_is_right() -> None:
    found = diagnosing.diagnose(one_sleeps().snapshot())
    assert found.verdict is not None
    assert found.verdict.cause is Cause.BUSY_ELSEWHERE
    assert [one.rule for one in found.broken] == ["a rule with a bug"]


def test_a_judge_that_raises_does_not_end_the_hub(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: list[Callable[[], tuple[EvidenceRequest, ...]]] = [
        lambda: (),
        _raise,
        _raise,
        lambda: (),
    ]

    def judge(_snapshot: Snapshot) -> tuple[EvidenceRequest, ...]:
        return answers.pop(0)()

    guarded = OwnBugs(tmp_path, []).guard(judge)
    for _ in range(4):
        assert guarded(job(2).snapshot()) == ()
    assert capsys.readouterr().err.count("a bug in unstuck") == 1
    assert answers == []


def test_a_full_disk_does_not_make_it_worse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / FOLDER).write_text("in the way")
    assert OwnBugs(tmp_path, []).guard(lambda _: _raise())(job(2).snapshot()) == ()
    assert "Please report it (could not store" in capsys.readouterr().err


def _raise() -> tuple[EvidenceRequest, ...]:
    raise ValueError("year 33658 is out of range")
