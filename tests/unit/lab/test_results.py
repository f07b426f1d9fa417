"""Runs are in the file when the next one begins, and a damaged file is said to be one."""

from pathlib import Path

import pytest

from unstuck.errors import LabError
from unstuck.lab.results import Results
from unstuck.lab.run import Blamed, Run


def test_a_run_is_read_back_as_it_was(tmp_path: Path) -> None:
    run = Run("sigkill", 2, "process-crash", (Blamed(2, "node0"),), 0.4, ("out-of-memory",))
    Results(tmp_path / "lab.jsonl").add(run)
    assert Results(tmp_path / "lab.jsonl").runs == [run]


def test_half_a_line_of_a_killed_session_is_made_again(tmp_path: Path) -> None:
    file = tmp_path / "lab.jsonl"
    Results(file).add(Run("sigkill", 1))
    with file.open("ab") as torn:
        torn.write(b'{"scenario":"sigst')
    results = Results(file)
    results.add(Run("sigstop", 1))
    assert [run.scenario for run in Results(file).runs] == ["sigkill", "sigstop"]


@pytest.mark.parametrize("text", ["buy milk", "buy milk\n"])
def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path: Path, text: str) -> None:
    file = tmp_path / "notes.txt"
    file.write_text(text)
    with pytest.raises(LabError, match=r"notes\.txt does not contain runs of the lab"):
        Results(file)
    assert file.read_text() == text


def test_a_run_that_had_trouble_is_made_again_and_then_counts_once(tmp_path: Path) -> None:
    file = tmp_path / "lab.jsonl"
    Results(file).add(Run("sigkill", 1, trouble="the clock moved by +11.0 s"))
    later = Results(file)
    assert not later.has("sigkill", 1)
    good = Run("sigkill", 1, "process-crash", seconds=0.4)
    later.add(good)
    assert later.runs == [good]
    assert Results(file).runs == [good]
    assert Results(file).has("sigkill", 1)
