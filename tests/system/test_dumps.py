"""Dumps that a real job writes while it hangs lead to the rank at fault, without torch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from expectations import FAULT_RANK, PROGRAMS
from unstuck.lab.job import TORCHRUN

pytestmark = pytest.mark.system


def test_fresh_dumps_of_a_rank_that_does_not_come_name_it(tmp_path: Path) -> None:
    command = [*TORCHRUN, str(PROGRAMS / "write_dumps.py"), "absent", str(tmp_path)]
    job = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    written = sorted(file.name for file in tmp_path.iterdir())
    assert len(written) == 8, job.stderr

    found = subprocess.run(
        [sys.executable, "-m", "unstuck", "diagnose", "--json", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert found.returncode == 1, found.stderr
    verdict = json.loads(found.stdout)["verdict"]
    assert [one["rank"] for one in verdict["culprits"]] == [FAULT_RANK]
    assert verdict["victims"] == [0, 1, 3]
    assert verdict["stuck"]["op"] == "all_reduce"
