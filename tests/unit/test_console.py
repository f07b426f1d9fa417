"""What we say is one line, marked as ours, beside the job's own output."""

import pytest

from unstuck.console import LONGEST, clean, say


def test_line_goes_to_stderr(capsys: pytest.CaptureFixture[str]):
    say("the job moves again")
    assert capsys.readouterr() == ("", "unstuck: the job moves again\n")


def test_text_from_a_job_cannot_drive_the_terminal(capsys: pytest.CaptureFixture[str]):
    say("rank 3 \x1b[2J\x1b]0;title\x07 is\nunobserved \u202ebackwards")
    assert capsys.readouterr().err == "unstuck: rank 3 [2J]0;title is unobserved backwards\n"


def test_text_of_megabytes_is_cut(capsys: pytest.CaptureFixture[str]):
    say("x" * 40_000_000)
    assert len(capsys.readouterr().err) == len("unstuck: \n") + LONGEST


def test_clean_keeps_every_other_script():
    assert clean("某个 rank 太慢 \u2026 caf\u00e9") == "某个 rank 太慢 \u2026 caf\u00e9"
