"""A bundle appears whole, comes back the same, and says clearly what is wrong with it."""

import json
import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from unstuck.collect import bundle, members
from unstuck.errors import (
    BundleDamagedError,
    BundleNotFoundError,
    BundleSchemaError,
    BundleWriteError,
)
from unstuck.lab.simulate import draw, snapshot
from unstuck.model.rank import Process, ProcessState, RankState
from unstuck.model.snapshot import NodeState, Snapshot
from unstuck.model.verdict import Cause, Confidence, Culprit, Verdict

SNAPSHOT = Snapshot(
    taken_at=1794745801.5,
    nodes=(NodeState("node7-100", "node7"),),
    ranks=(
        RankState(rank=0, host="node7", process=Process(pid=10)),
        RankState(
            rank=1,
            host="node7",
            process=Process(pid=11, state=ProcessState.STOPPED),
            threads=("Thread 11 (most recent call first):\n  f at a.py:1\n", "Thread 12: idle"),
        ),
    ),
    world_size=2,
)
VERDICT = Verdict(
    cause=Cause.PROCESS_STOPPED,
    confidence=Confidence.CERTAIN,
    culprits=(Culprit(rank=1, host="node7", doing="is stopped", pid=11),),
    victims=(0,),
    since="2026-11-15T12:29:27+00:00",
)


@pytest.fixture
def incident(tmp_path: Path) -> Path:
    about = {"command": ["torchrun", "train.py"]}
    return bundle.write(tmp_path / "runs", SNAPSHOT, VERDICT, about=about)


def test_what_was_written_is_read_back(incident: Path) -> None:
    found = bundle.read(incident)

    assert (found.snapshot, found.verdict, found.path) == (SNAPSHOT, VERDICT, incident)
    assert found.about["command"] == ["torchrun", "train.py"]
    assert found.about["schema"] == "unstuck.incident/1"
    assert {"unstuck", "python", "written_at"} <= set(found.about)


def test_job_without_a_verdict_can_be_stored_too(tmp_path: Path) -> None:
    assert bundle.read(bundle.write(tmp_path, SNAPSHOT, None, about={})).verdict is None


def test_stacks_are_text_for_the_ranks_that_have_them(incident: Path) -> None:
    stacks = {path.name: path.read_text() for path in (incident / "stacks").iterdir()}

    assert list(stacks) == ["rank-1.txt"]
    assert stacks["rank-1.txt"].startswith("Thread 11 (most recent call first):\n  f at a.py:1\n")
    assert stacks["rank-1.txt"].endswith("Thread 12: idle\n")


def test_incident_is_for_its_owner_only(incident: Path) -> None:
    assert stat.S_IMODE(incident.stat().st_mode) == 0o700


def test_numbers_go_up_and_do_not_fill_gaps(tmp_path: Path) -> None:
    (tmp_path / "incident-9").mkdir()
    (tmp_path / "incident-9" / "kept").touch()
    (tmp_path / "incident-notes").mkdir()

    assert bundle.write(tmp_path, SNAPSHOT, VERDICT, about={}).name == "incident-10"


def _write_some(parent: Path) -> None:
    for _ in range(5):
        bundle.write(parent, SNAPSHOT, VERDICT, about={})


def test_writers_at_the_same_time_never_share_a_number(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write_some, args=(tmp_path,)) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"incident-{n}" for n in range(1, 21)
    )
    assert all(bundle.read(path).verdict == VERDICT for path in tmp_path.iterdir())


def test_failed_write_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BundleWriteError, match="No space left on device") as caught:
        bundle.write(tmp_path, SNAPSHOT, VERDICT, about={})

    assert "df -h" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_run_directory_stands_for_its_newest_incident(tmp_path: Path) -> None:
    for _ in range(11):
        bundle.write(tmp_path, SNAPSHOT, VERDICT, about={})

    assert bundle.read(tmp_path).path.name == "incident-11"


@pytest.mark.parametrize("name", ["snapshot.json", "verdict.json", "about.json"])
def test_file_inside_stands_for_its_incident(incident: Path, name: str) -> None:
    assert bundle.read(incident / name).path == incident


def test_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BundleNotFoundError, match=r"nothing is at .*/typo"):
        bundle.read(tmp_path / "typo")


def test_directory_without_incidents_is_not_a_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleNotFoundError, match="is not an incident bundle and holds none"):
        bundle.read(tmp_path)


def test_other_file_is_not_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "train.log").touch()
    with pytest.raises(BundleDamagedError, match=r"train\.log is not part of an incident"):
        bundle.read(tmp_path / "train.log")


@pytest.mark.parametrize("name", ["snapshot.json", "verdict.json", "about.json"])
def test_truncated_file_is_named(incident: Path, name: str) -> None:
    content = (incident / name).read_bytes()
    (incident / name).write_bytes(content[: len(content) // 2])

    with pytest.raises(BundleDamagedError, match=f"{name} is cut short"):
        bundle.read(incident)


def test_missing_file_is_named(incident: Path) -> None:
    (incident / "snapshot.json").unlink()

    with pytest.raises(BundleDamagedError, match=r"snapshot\.json cannot be read: no such file"):
        bundle.read(incident)


def test_file_of_another_shape_is_named(incident: Path) -> None:
    (incident / "snapshot.json").write_text('{"taken_at": "noon"}')

    with pytest.raises(BundleDamagedError, match=r"snapshot\.json does not hold what it should"):
        bundle.read(incident)


@pytest.mark.parametrize("name", ["verdict.json", "about.json"])
def test_later_schema_is_refused_even_if_its_shape_changed(incident: Path, name: str) -> None:
    plain = json.loads((incident / name).read_text())
    later = plain["schema"].replace("/1", "/2")
    (incident / name).write_text(json.dumps({"schema": later, "verdict": "another shape"}))

    with pytest.raises(BundleSchemaError, match=f"follows {later}"):
        bundle.read(incident)


def test_large_job_lists_the_members_of_its_groups_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = snapshot(draw(3))
    whole = bundle.write(tmp_path, large, None, about={})
    monkeypatch.setattr(members, "MOST_LISTED", 100)
    short = bundle.write(tmp_path, large, None, about={})

    assert not (whole / "members.json").exists()
    assert (short / "members.json").stat().st_size < 20_000
    assert bundle.read(short).snapshot == bundle.read(whole).snapshot == large
    assert '"ranks": []' in (short / "snapshot.json").read_text()

    for damaged in (b'{"lists": [[0, 1]], "of_ranks": {}}', b'{"lists": [], "of_ranks": {}}', b"{"):
        (short / "members.json").write_bytes(damaged)
        with pytest.raises(BundleDamagedError):
            bundle.read(short)
