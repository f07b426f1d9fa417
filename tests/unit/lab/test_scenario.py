"""A scenario knows whom its fault hits and what to expect."""

from pathlib import Path

from unstuck.lab.faults import Stop
from unstuck.lab.scenario import Scenario
from unstuck.model.verdict import Cause

FINE = Scenario(name="fine", kind="healthy", program=Path("p.py"), causes=())


def test_the_rank_is_that_of_the_fault_else_the_culprit_else_one_that_exists():
    stopped = Scenario(
        name="stopped",
        kind="hang",
        program=Path("p.py"),
        causes=(Cause.PROCESS_STOPPED, Cause.HOST_DEADLOCK),
        culprits=(1,),
        fault=Stop(rank=3),
    )
    assert stopped.rank == 3
    assert Scenario(name="x", kind="hang", program=Path("p.py"), causes=(), culprits=(1,)).rank == 1
    assert Scenario(name="x", kind="hang", program=Path("p.py"), causes=(), ranks=2).rank == 1
    assert stopped.expected == "process-stopped or host-deadlock"


def test_a_job_that_works_is_named_and_never_judged():
    works = Scenario(name="works", kind="works", program=Path("p.py"), causes=(), culprits=(2,))
    assert works.expected == "a notice"
    assert FINE.expected == "no verdict"
    assert FINE.why_not() == ""
