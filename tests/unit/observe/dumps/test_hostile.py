"""Whatever stands in a file: a verdict, no verdict, or one clear error. Nothing else."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from recorded import dump, entry, started
from unstuck.diagnose.diagnose import diagnose
from unstuck.errors import DumpError
from unstuck.explain.advice.advice import advise
from unstuck.observe.dumps.files import read
from unstuck.observe.dumps.gaps import notes
from unstuck.observe.dumps.to_snapshot import make_snapshot

GOLDEN = Path(__file__).parents[3] / "golden" / "dumps"
FIXTURE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
numbers = st.integers(-(2**70), 2**70)
values = st.none() | st.booleans() | numbers | st.text(max_size=8) | st.lists(numbers, max_size=3)


def judge(home: Path) -> None:
    """Do all that the command does; only a DumpError may end it."""
    try:
        reading = read([home])
    except DumpError:
        return
    snapshot = make_snapshot(reading)
    notes(reading, snapshot)
    verdict = diagnose(snapshot).verdict
    if verdict is not None:
        advise(verdict)


def lay_out(home: Path, changed: bytes, ending: str) -> Path:
    for rank in range(4):
        name = f"trace_{rank}{ending}"
        content = (GOLDEN / "absent" / name).read_bytes() if rank != 1 else changed
        (home / name).write_bytes(content)
    return home


@pytest.mark.parametrize("ending", ["", ".json"], ids=["pickle", "json"])
@FIXTURE
@given(changes=st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 255)), max_size=6))
def test_changed_bytes_do_no_harm(ending: str, changes: list[tuple[int, int]], tmp_path: Path):
    content = bytearray((GOLDEN / "absent" / f"trace_1{ending}").read_bytes())
    for place, value in changes:
        content[place] = value
    judge(lay_out(tmp_path, bytes(content), ending))


@FIXTURE
@given(field=st.sampled_from(sorted(entry(1))), value=values, number=st.integers(0, 1))
@example(field="time_created_ns", value=2**2000, number=1)
@example(field="time_created_ns", value=2**62, number=1)
@example(field="collective_seq_id", value=-5, number=1)
@example(field="process_group", value=[], number=0)
@example(field="profiling_name", value="", number=0)
@example(field="profiling_name", value="nccl:send 9999999->1", number=1)
def test_any_value_in_any_field_does_no_harm(field: str, value: Any, number: int, tmp_path: Path):
    content = dump(entry(1), started(2))
    content["entries"][number][field] = value
    other = dump(entry(1))
    for rank, made in enumerate((content, other, content, other)):
        (tmp_path / f"trace_{rank}").write_bytes(pickle.dumps(made, 2))
    judge(tmp_path)


@FIXTURE
@given(field=st.sampled_from(["pg_config", "pg_status", "version", "entries"]), value=values)
@example(field="pg_config", value={"0": {"ranks": "[9999999, 5]", "desc": "default_pg"}})
@example(field="pg_config", value={"0": {"ranks": None}})
@example(field="pg_config", value={"": {}})
@example(field="pg_status", value={"0": {"last_enqueued_collective": -1}})
@example(field="pg_status", value={"x": {"last_enqueued_collective": "7"}})
def test_any_value_around_the_entries_does_no_harm(field: str, value: Any, tmp_path: Path):
    (tmp_path / "rank0.json").write_text(json.dumps(dump(entry(1), started(2)) | {field: value}))
    (tmp_path / "rank1.json").write_text(json.dumps(dump(entry(1))))
    judge(tmp_path)
