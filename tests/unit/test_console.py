"""What we say is one line, marked as ours, beside the job's own output."""

import pytest

from unstuck.console import say


def test_line_goes_to_stderr(capsys: pytest.CaptureFixture[str]):
    say("the job moves again")
    assert capsys.readouterr() == ("", "unstuck: the job moves again\n")
