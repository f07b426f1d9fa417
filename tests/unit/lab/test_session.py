"""Every scenario is run as often as asked; one that cannot run is tried once."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from unstuck.lab import session
from unstuck.lab.results import Results
from unstuck.lab.run import Run
from unstuck.lab.scenario import Scenario

FINE = Scenario(name="fine", kind="healthy", program=Path("p.py"), causes=())
AWAY = Scenario(name="away", kind="healthy", program=Path("p.py"), causes=())


class Listener:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def begin(self, scenario: Scenario, number: int) -> Callable[[str], None]:
        self.heard.append(f"begin {scenario.name} {number}")
        return self.heard.append

    def end(self, scenario: Scenario, run: Run) -> None:
        self.heard.append(f"end {scenario.name} {run.number}")


@pytest.fixture(autouse=True)
def observed(monkeypatch: pytest.MonkeyPatch) -> None:
    def observe(scenario: Scenario, number: int, interrupts: Any, say: Any, keep: Any) -> Run:
        if scenario is AWAY:
            return Run(scenario.name, number, skipped="needs root")
        if number == 3:
            raise KeyboardInterrupt
        return Run(scenario.name, number, exit_code=0)

    monkeypatch.setattr(session, "observe", observe)


def test_runs_are_repeated_and_told():
    listener, results = Listener(), Results()
    session.run_all(session.missing([AWAY, FINE], 2, results), listener, results)

    made = [(run.scenario, run.number) for run in results.runs]
    assert made == [("away", 1), ("fine", 1), ("fine", 2)]
    assert listener.heard[:3] == ["begin away 1", "end away 1", "begin fine 1"]


def test_what_was_run_before_ctrl_c_is_not_lost():
    results = Results()
    with pytest.raises(KeyboardInterrupt):
        session.run_all(session.missing([FINE], 5, results), Listener(), results)

    assert [run.number for run in results.runs] == [1, 2]


def test_runs_from_before_are_not_made_again(tmp_path: Path):
    file = tmp_path / "lab.jsonl"
    session.run_all([(FINE, 1)], Listener(), Results(file))
    listener, results = Listener(), Results(file)
    tasks = session.missing([FINE, AWAY], 2, results)
    session.run_all(tasks, listener, results)

    assert results.taken_over == 1
    assert [line for line in listener.heard if line.startswith("begin")] == [
        "begin away 1",
        "begin fine 2",
    ]
    assert Results(file).runs == results.runs


def test_what_must_be_alone_is_run_after_those_side_by_side(monkeypatch: pytest.MonkeyPatch):
    alone = replace(FINE, name="alone", alone=True)
    together: list[str] = []

    def make(tasks: Iterator[session.Task], jobs: int, begin: Any, end: Any, keep: Any) -> None:
        for scenario, number in tasks:
            together.append(scenario.name)
            end(scenario, Run(scenario.name, number))

    monkeypatch.setattr(session, "make_abreast", make)
    results = Results()
    session.run_all(session.missing([alone, FINE], 2, results), Listener(), results, jobs=2)

    assert together == ["fine", "fine"]
    assert [run.scenario for run in results.runs] == ["fine", "fine", "alone", "alone"]


def test_healthy_jobs_are_spread_over_the_others():
    hang = replace(FINE, name="hang", kind="hang")
    tasks = [(FINE, 1), (FINE, 2), *((hang, number) for number in range(1, 7))]

    order = [scenario.name for scenario, _ in session.spread(tasks)]
    assert order == ["fine", "hang", "hang", "hang", "fine", "hang", "hang", "hang"]


def make_at_once(tasks: Iterator[session.Task], jobs: int, begin: Any, end: Any, keep: Any) -> None:
    for scenario, number in tasks:
        code = int(scenario.name == "fails")
        end(scenario, Run(scenario.name, number, exit_code=code, watched=900))


def test_healthy_jobs_run_in_turn_until_they_were_watched_for_so_long(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(session, "make_abreast", make_at_once)
    results, jobs = Results(), [FINE, replace(FINE, name="other")]
    results.add(Run("fine", 1, exit_code=0, watched=1800))
    results.add(Run("of another lab", 1, watched=9999))
    session.run_for(1.2, jobs, Listener(), results)

    made = [(run.scenario, run.number) for run in results.runs if run.scenario in ("fine", "other")]
    assert made == [("fine", 1), ("other", 1), ("fine", 2), ("other", 2)]
    assert session.watched_hours(jobs, results.runs) == 1.25


def test_job_that_fails_is_not_run_for_hours(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session, "make_abreast", make_at_once)
    results = Results()
    session.run_for(100.0, [replace(FINE, name="fails")], Listener(), results)

    assert [run.number for run in results.runs] == [1]


def test_the_machine_is_described():
    assert session.machine().keys() == {"cores", "load", "kernel", "torch", "unstuck"}
