"""Hold-ups: each is mentioned once, and that it is over; nothing is stored but a line."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from scenes import NOW, Scene, one_sleeps, watched
from unstuck.act.notices import Notices
from unstuck.diagnose.diagnose import diagnose
from unstuck.model.snapshot import Snapshot

Said = Callable[[], list[str]]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    return lambda: capsys.readouterr().err.splitlines()  # noqa: PLW0108 - read at each call


def late(seconds: float = 10.0, quiet: float = 2.0) -> Scene:
    scene = one_sleeps().sleep(2, stalled=seconds)
    for rank in (0, 1, 3):
        scene.change(rank, stalled_for=seconds)
    return watched(scene, 2, quiet)


def at(scene: Scene, passed: float) -> Snapshot:
    return msgspec.structs.replace(scene.snapshot(), taken_at=NOW + passed)


def look(notices: Notices, snapshot: Snapshot) -> None:
    found = diagnose(snapshot)
    notices.look(found.notices, found.verdict, snapshot)


def moved() -> Scene:
    scene = late()
    for rank in range(4):
        scene.change(rank, stalled_for=0.1, in_flight=False)
    return scene


def test_a_hold_up_is_mentioned_once_and_its_end_too(tmp_path: Path, said: Said) -> None:
    notices = Notices(tmp_path)
    for passed in range(5):
        look(notices, at(late(10.0 + passed), passed))
    lines = said()
    assert [line.startswith("unstuck: rank 2 is asleep") for line in lines] == [True, False]
    assert len(notices.current) == 1
    look(notices, at(moved(), 6.0))
    assert said() == ["unstuck: rank 2 moved on after 14 s at train.py:31"]
    assert notices.current == ()


def test_a_verdict_takes_its_place_without_a_word(tmp_path: Path, said: Said) -> None:
    notices = Notices(tmp_path)
    look(notices, at(late(), 0.0))
    said()
    look(notices, at(late(70.0, quiet=60.0), 60.0))
    assert (said(), notices.current) == ([], ())


def test_a_place_that_is_known_is_not_mentioned_again(tmp_path: Path, said: Said) -> None:
    notices = Notices(tmp_path)
    look(notices, at(late(), 0.0))
    look(notices, at(moved(), 5.0))
    said()
    look(notices, at(late(12.0), 30.0))
    look(notices, at(moved(), 40.0))
    assert said() == []
    look(notices, at(late(40.0), 90.0))
    assert said() != []


def test_the_warning_comes_once_although_the_hold_up_is_known(tmp_path: Path, said: Said) -> None:
    notices = Notices(tmp_path)
    look(notices, at(late(10.0), 0.0))
    said()
    for passed in (10.0, 11.0):
        scene = late(10.0 + passed)
        for rank in (0, 1, 3):
            scene.progress(rank, "0", timeout=40.0)
        look(notices, at(scene, passed))
    lines = said()
    assert [line for line in lines if "torch gives up in" in line] == lines[1:2]


def test_as_json_and_in_the_run_directory(tmp_path: Path, said: Said) -> None:
    notices = Notices(tmp_path, as_json=True)
    look(notices, at(late(), 0.0))
    look(notices, at(moved(), 5.0))
    lines = said()
    assert (tmp_path / "notices.jsonl").read_text().splitlines() == lines
    first, last = (json.loads(line) for line in lines)
    assert first["schema"] == "unstuck.notice/1"
    assert first["notice"]["ranks"][0]["rank"] == 2
    assert (first.get("over", False), last["over"]) == (False, True)


def test_a_run_directory_that_is_gone_silences_nobody(tmp_path: Path, said: Said) -> None:
    notices = Notices(tmp_path / "gone")
    look(notices, at(late(), 0.0))
    assert said()


def test_a_job_that_is_ended_has_not_moved_on(tmp_path: Path, said: Said) -> None:
    notices = Notices(tmp_path)
    look(notices, at(late(), 0.0))
    said()
    look(notices, at(late(11.0).node("host0", stopping=True), 1.0))
    assert (said(), notices.current) == ([], ())
