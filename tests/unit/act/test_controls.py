"""Pause, go on, be more or less patient: obeyed, remembered, refused when senseless."""

from pathlib import Path
from typing import Any

import pytest

from unstuck.act.controls import RefusedError, Steering
from unstuck.model.controls import Controls

NOW = 1_800_000_000.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "controls.json"


def test_a_pause_ends_by_itself_and_that_is_told_once(path: Path) -> None:
    steering = Steering(path)
    assert steering.obey({"do": "pause", "for": 60}, NOW).startswith("paused for 60 s")
    assert steering.at(NOW + 10).paused_left == 50.0
    assert not steering.pause_has_ended(NOW + 59)
    assert steering.at(NOW + 61).paused_left == 0.0
    assert [steering.pause_has_ended(NOW + 61) for _ in range(2)] == [True, False]


def test_a_pause_without_a_time_is_an_hour(path: Path) -> None:
    steering = Steering(path)
    steering.obey({"do": "pause"}, NOW)
    assert steering.at(NOW).paused_left == 3600.0


def test_resume_ends_it_without_another_word(path: Path) -> None:
    steering = Steering(path)
    steering.obey({"do": "pause"}, NOW)
    assert "judged again" in steering.obey({"do": "resume"}, NOW + 5)
    assert steering.at(NOW + 6) == Controls(resumed_for=1.0)
    assert steering.at(NOW + 16) == Controls()
    assert not steering.pause_has_ended(NOW + 9999)
    assert steering.obey({"do": "resume"}, NOW + 6) == "was not paused"


def test_what_is_set_can_be_taken_back(path: Path) -> None:
    steering = Steering(path)
    steering.obey({"do": "set", "patience": 60, "sections": {"save": 600, "load": 5}}, NOW)
    assert steering.at(NOW) == Controls(patience=60.0, sections={"save": 600.0, "load": 5.0})
    steering.obey({"do": "set", "patience": None, "sections": {"save": None}}, NOW)
    assert steering.at(NOW) == Controls(sections={"load": 5.0})


def test_a_hub_that_is_started_again_knows_it(path: Path) -> None:
    first = Steering(path)
    first.obey({"do": "pause", "for": 60}, NOW)
    first.obey({"do": "set", "patience": 30}, NOW)
    assert Steering(path).at(NOW + 1) == first.at(NOW + 1)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"paused_until": "soon"}'])
def test_a_damaged_file_is_as_none(path: Path, content: str) -> None:
    path.write_text(content)
    assert Steering(path).at(NOW) == Controls()


def test_a_run_directory_that_is_gone_costs_only_the_memory(tmp_path: Path) -> None:
    steering = Steering(tmp_path / "gone" / "controls.json")
    steering.obey({"do": "set", "patience": 30}, NOW)
    assert steering.at(NOW).patience == 30.0


@pytest.mark.parametrize(
    ("message", "word"),
    [
        ("pause", "object"),
        ({}, "pause, resume, set or status"),
        ({"do": "dance"}, "'dance'"),
        ({"do": "pause", "for": -1}, "for must be"),
        ({"do": "pause", "for": "1h"}, "for must be"),
        ({"do": "pause", "for": 10**9}, "for must be"),
        ({"do": "set"}, "nothing to set"),
        ({"do": "set", "patience": 0}, "patience must be"),
        ({"do": "set", "patience": True}, "patience must be"),
        ({"do": "set", "patience": float("nan")}, "patience must be"),
        ({"do": "set", "sections": ["save"]}, "sections is"),
        ({"do": "set", "sections": {"save": -3}}, "save must be"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(
    path: Path, message: Any, word: str
) -> None:
    steering = Steering(path)
    with pytest.raises(RefusedError, match=word):
        steering.obey(message, NOW)
    assert steering.at(NOW) == Controls()
    assert not path.exists()


def test_to_ask_how_things_stand_changes_nothing(path: Path) -> None:
    assert Steering(path).obey({"do": "status"}, NOW) == ""
    assert not path.exists()
