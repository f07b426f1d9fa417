"""The programs and what is expected of them belong together: nothing missing, nothing unclear."""

import ast

import pytest

from expectations import EVERYDAY, PROGRAMS, Expectation, faulty, healthy, load
from unstuck.model.verdict import Cause

HELPERS = {
    "onset",
    "no_dist",
    "stdin_echo",
    "site_check",
    "slow_rank",
    "write_dumps",
    "recovers",
    "blocked_start",
    "lingers",
    "storage_gone",
    "stays",
    "training",
    "far_away",
    "saves_at_the_end",
}
"""Programs without an entry in expected.toml: those of scenarios, or for tests alone."""


def test_there_are_enough_of_both_kinds() -> None:
    assert len(faulty()) >= 30
    assert len(healthy()) >= 12


def test_every_program_has_an_expectation() -> None:
    written = {file.stem for file in PROGRAMS.glob("*.py")}
    assert {each.program for each in load()} == written - HELPERS


def test_what_runs_every_day_exists() -> None:
    assert {each.program for each in load()} >= EVERYDAY


@pytest.mark.parametrize("expected", load(), ids=lambda expected: expected.program)
def test_an_expectation_can_be_met(expected: Expectation) -> None:
    assert {*expected.causes} <= {cause.value for cause in Cause}
    assert {*expected.culprits, *expected.beside} <= {*range(expected.ranks)}
    assert {*expected.culprits}.isdisjoint(expected.beside)
    assert bool(expected.why) == (len(expected.causes) > 1)


@pytest.mark.parametrize("expected", faulty(), ids=lambda expected: expected.program)
def test_a_fault_says_when_and_where(expected: Expectation) -> None:
    tree = ast.parse(expected.path.read_text())
    calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert "onset.mark" in calls
    assert expected.fault_lines()
