"""One line a run, also where no terminal is; the line says what matters first."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from unstuck.lab.progress import Progress, line
from unstuck.lab.run import Blamed, Run
from unstuck.lab.scenario import Scenario
from unstuck.model.verdict import Cause

STOPPED = Scenario(
    name="stopped",
    kind="hang",
    program=Path("p.py"),
    causes=(Cause.PROCESS_STOPPED,),
    culprits=(1, 2),
    goal=5.0,
)
BOTH = (Blamed(1, "a"), Blamed(2, "a"))


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (
            Run("stopped", 1, cause="process-stopped", culprits=BOTH, seconds=2.0),
            "stopped 1: right: process-stopped of ranks 1, 2 after 2.00 s",
        ),
        (
            Run("stopped", 2, cause="straggler", culprits=BOTH, seconds=2.0),
            "stopped 2: WRONG: straggler of 1, 2; right is process-stopped of 1, 2",
        ),
        (Run("stopped", 3, trouble="no proof [of it]"), "stopped 3: not counted: no proof [of it]"),
        (Run("stopped", 1, skipped="needs root"), "stopped 1: skipped: needs root"),
    ],
)
def test_a_run_is_one_line(run: Run, said: str):
    target = io.StringIO()
    Console(file=target, highlight=False).print(line(STOPPED, run), soft_wrap=True)

    assert target.getvalue() == said + "\n"


def test_where_no_terminal_is_nothing_but_the_results_is_written():
    target = io.StringIO()
    with Progress(1, Console(file=target, highlight=False)) as progress:
        say = progress.begin(STOPPED, 1)
        say("waiting for step 30")
        progress.end(STOPPED, Run("stopped", 1, skipped="needs root"))

    assert target.getvalue() == "stopped 1: skipped: needs root\n"


def test_on_a_terminal_it_says_what_it_waits_for():
    target = io.StringIO()
    with Progress(1, Console(file=target, force_terminal=True, width=100)) as progress:
        say = progress.begin(STOPPED, 1)
        say("waiting for step 30")

    assert "stopped 1: waiting for step 30" in target.getvalue()


def test_of_jobs_side_by_side_it_says_what_each_waits_for():
    target = io.StringIO()
    with Progress(2, Console(file=target, force_terminal=True, width=100)) as progress:
        first, second = progress.begin(STOPPED, 1), progress.begin(STOPPED, 2)
        first("waiting for step 30")
        second("cleaning up")

    assert "stopped 1: waiting for step 30  stopped 2: cleaning up" in target.getvalue()
