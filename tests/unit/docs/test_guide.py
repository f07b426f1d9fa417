"""Tables that the guide has of its own agree with the code."""

import re
from pathlib import Path
from typing import get_args

import click
import pytest

from unstuck.act.defaults import RECOVER
from unstuck.act.policy import parse_rule
from unstuck.lab.faults import AnyFault
from unstuck.model.action import TELLING, Action
from unstuck.model.exits import STOP_WORDS, Exit
from unstuck.model.verdict import Cause
from unstuck.show.cli.lab import lab
from unstuck.show.cli.run import run

DOCS = Path(__file__).parents[3] / "docs"


def rows(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, without its head."""
    text = ("\n" + (DOCS / page).read_text()).split(f"\n{heading}\n", 1)[1]
    table = re.search(r"(?m)(?:^\|.*\n)+", text)
    assert table is not None, f"{page}: no table below {heading}"
    lines = table[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@pytest.mark.parametrize("cause", Cause)
def test_the_table_of_recovery_says_what_the_default_policy_does(cause: Cause):
    text = next(
        text
        for causes, text in rows("recovery.md", "## What is done about each cause")
        if f"`{cause}`" in causes
    )
    touching = [
        step for step in parse_rule(cause, RECOVER[cause].acts) if step.action not in TELLING
    ]

    assert text.startswith("nothing") == (not touching)
    for step in touching:
        if step.stop:
            assert str(STOP_WORDS[step.stop].value) in text
        if step.action is Action.RESTART:
            assert "restart" in text


def test_the_table_of_exit_codes_is_complete():
    codes = [int(code) for code, _ in rows("recovery.md", "## Exit codes")]

    assert codes == list(Exit)


@pytest.mark.parametrize(
    ("page", "heading", "command"),
    [
        ("running.md", "# Running a job under unstuck", run),
        ("lab.md", "# The fault lab", lab.commands["run"]),
    ],
)
def test_a_table_of_options_has_exactly_the_options_there_are(
    page: str, heading: str, command: click.Command
):
    shown = [re.match(r"`(--[\w-]+)", row[0]) for row in rows(page, heading)]
    options = {one.opts[0] for one in command.params if isinstance(one, click.Option)}

    assert {found[1] for found in shown if found} == options


def test_the_table_of_faults_has_every_fault_with_its_parameters():
    shown = {
        re.findall(r"`([\w-]+)`", row[0])[0]: set(re.findall(r"`(\w+)`", row[1]))
        for row in rows("lab.md", "## Faults")
    }
    there = {
        str(fault.__struct_config__.tag): set(fault.__struct_fields__)
        for fault in get_args(AnyFault)
    }

    assert shown == there
