"""The scenarios make sense: their programs exist, their causes are words that we know."""

from pathlib import Path

import pytest

from unstuck.errors import ScenarioError
from unstuck.lab import scenarios
from unstuck.lab.faults import Inside
from unstuck.lab.scenario import Scenario
from unstuck.lab.scenarios import NEVER_JUDGED, choose, load
from unstuck.model.verdict import Cause

KNOWN = load()
ENTRY = """
[mine]
kind = "hang"
program = "{program}"
causes = {causes}
culprits = [2]
{more}
"""


def write(folder: Path, program: str = "healthy", causes: str = '["unknown"]', more: str = ""):
    """Write a file with one scenario of a user's own."""
    file = folder / "mine.toml"
    file.write_text(ENTRY.format(program=program, causes=causes, more=more))
    return file


@pytest.mark.parametrize("scenario", KNOWN, ids=lambda each: each.name)
def test_every_scenario_can_be_started_and_judged(scenario: Scenario):
    assert scenario.program.is_file()
    assert all(cause in list(Cause) for cause in (*scenario.causes, *scenario.after))
    assert all(0 <= rank < scenario.ranks for rank in scenario.culprits)
    assert all(
        host in {f"node{i}" for i in range(scenario.hosts)} for host in scenario.culprit_hosts
    )
    assert scenario.goal > 0 or scenario.kind in NEVER_JUDGED
    assert 0 <= scenario.rank < scenario.ranks
    assert len(scenario.causes) < 2 or scenario.why


@pytest.mark.parametrize("scenario", KNOWN, ids=lambda each: each.name)
def test_a_program_writes_down_when_the_fault_is_due(scenario: Scenario):
    if scenario.kind != "healthy" or not isinstance(scenario.fault, Inside):
        assert "onset.mark()" in scenario.program.read_text()


def test_there_are_enough_of_them():
    assert sum(bool(each.causes) for each in KNOWN) >= 30
    assert sum(not each.causes for each in KNOWN) >= 40


def test_scenarios_are_chosen_by_name_and_pattern_in_the_order_of_the_list():
    chosen = [each.name for each in choose(KNOWN, ["stop-*", "sigkill"])]

    assert chosen[0] == "sigkill"
    assert {"stop-from-outside", "stop-rank-0"} <= set(chosen)
    assert len(choose(KNOWN, [])) == len(KNOWN)


def test_a_name_that_fits_none_is_answered_with_the_nearest():
    with pytest.raises(ScenarioError, match="there is no scenario sigkil") as caught:
        choose(KNOWN, ["sigkil"])
    assert caught.value.hint == "did you mean sigkill?"


def test_jobs_of_real_libraries_are_healthy_and_run_by_their_own_interpreter():
    world = scenarios.load_world("/elsewhere/bin/python")

    assert len(world) >= 9
    assert {each.kind for each in world} == {"healthy"}
    assert {each.python for each in world} == {"/elsewhere/bin/python"}
    assert all(each.about and "trained" in each.program.read_text() for each in world)


def test_a_users_own_scenario_runs_the_program_beside_its_file(tmp_path: Path):
    (tmp_path / "train.py").write_text("import onset\n")
    mine = load([write(tmp_path, program="train")])[-1]

    assert (mine.name, mine.program, mine.goal) == ("mine", tmp_path / "train.py", 5.0)


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({"program": "no-such"}, "there is no program no-such.py"),
        ({"causes": '["gremlins"]'}, "gremlins"),
        ({"causes": "[]"}, "a healthy job has no causes"),
        ({"causes": '["unknown", "straggler"]'}, "why"),
        ({"more": 'fault = { name = "earthquake" }'}, "earthquake"),
        ({"more": 'fault = { name = "stop", rnak = 1 }'}, "rnak"),
        ({"more": "color = 3"}, "color"),
        ({"more": "hosts = 3\nranks = 4"}, "evenly"),
    ],
)
def test_a_scenario_that_makes_no_sense_is_refused(
    tmp_path: Path, entry: dict[str, str], complaint: str
):
    with pytest.raises(ScenarioError, match=complaint):
        load([write(tmp_path, **entry)])


def test_a_name_may_be_used_once(tmp_path: Path):
    file = write(tmp_path)
    file.write_text(file.read_text().replace("[mine]", "[sigkill]"))

    with pytest.raises(ScenarioError, match="the same name: sigkill"):
        load([file])


def test_a_file_that_is_not_there_or_not_toml(tmp_path: Path):
    with pytest.raises(ScenarioError, match="no such file"):
        load([tmp_path / "none.toml"])
    (tmp_path / "bad.toml").write_text("[[")
    with pytest.raises(ScenarioError, match="is not TOML"):
        load([tmp_path / "bad.toml"])
