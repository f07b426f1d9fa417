"""The incident as Markdown."""

from hostile import hostile, incident
from scenes import job
from unstuck.explain.report.incident import markdown
from unstuck.explain.report.incident.contents import contents


def test_it_can_be_pasted_into_an_issue():
    written = markdown.render(incident())

    assert written.startswith("**unstuck: busy-elsewhere** (likely)")
    assert "at `train.py:31` in `evaluate`" in written
    assert "**Do not**" in written
    assert "evaluate (train.py:31) [1: 2]" in written


def test_commands_stay_code_with_spaces_around_them():
    assert ": `py-spy dump --pid 1002` (all its threads)" in markdown.render(incident())


def test_text_from_outside_cannot_mark_up():
    written = markdown.render(hostile())

    outside_code = "".join(written.split("`")[::2])
    assert "<script" not in outside_code
    assert "<img" not in outside_code
    assert "\x1b" not in written


def test_a_healthy_snapshot_is_one_line():
    assert markdown.render(contents(job().snapshot(), None, {})).count("\n") == 1
