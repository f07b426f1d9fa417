"""The ledger is on disk before the act is done."""

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from unstuck.act.ledger import Ledger
from unstuck.model.verdict import Cause

THEN_DIE = """
import os, sys
from pathlib import Path
from unstuck.act.ledger import Ledger
Ledger(Path(sys.argv[1])).write("dump", summary="rank 2 is asleep")
os.kill(os.getpid(), 9)
"""


def test_acts_are_lines_that_only_grow(tmp_path: Path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.write("dump", summary="rank 2: 训练", cause=Cause.STRAGGLER)
    Ledger(tmp_path / "ledger.jsonl").write("report")
    lines = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]

    assert [line["act"] for line in lines] == ["dump", "report"]
    assert (lines[0]["summary"], lines[0]["cause"]) == ("rank 2: 训练", "straggler")
    assert datetime.fromisoformat(lines[0]["at"]).tzinfo is not None


def test_line_is_there_when_the_process_dies_right_after(tmp_path: Path):
    subprocess.run([sys.executable, "-c", THEN_DIE, str(tmp_path / "ledger")], check=False)
    assert json.loads((tmp_path / "ledger").read_text())["act"] == "dump"


def test_ledger_that_cannot_be_written_says_so(tmp_path: Path):
    with pytest.raises(OSError, match="No such file"):
        Ledger(tmp_path / "gone" / "ledger").write("dump")
