"""One line at the start of a job, and only when something is wrong with its timeouts."""

from pathlib import Path

import pytest

from unstuck.launch import checkup

SCRIPT = """
from datetime import timedelta
import torch.distributed as dist
dist.init_process_group("gloo", timeout=timedelta(seconds=77))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_a_job_whose_timeouts_fit_hears_nothing(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkup.report(["torchrun", str(script)], {})
    assert capsys.readouterr().err == ""


def test_one_line_names_the_first_and_counts_the_others(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.write_text(SCRIPT + "g = dist.new_group([0, 1])\n")
    checkup.report(["torchrun", str(script)], {"NCCL_TIMEOUT": "5400"})
    said = capsys.readouterr().err
    assert said == (
        "unstuck: timeouts: NCCL_TIMEOUT=5400: neither torch nor NCCL reads it (and 1 more); "
        f"see: unstuck timeouts -- torchrun {script}\n"
    )


def test_hints_are_not_worth_a_line(script: Path) -> None:
    assert checkup.sum_up(["torchrun", "--monitor-interval=5", str(script)], {}) == ""


def test_whatever_fails_here_is_not_the_jobs_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(checkup, "sum_up", fail)
    checkup.report(["torchrun", "train.py"], {})
    assert capsys.readouterr().err == ""
