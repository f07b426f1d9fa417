"""The score for people has everything that the score has, and hides nothing that went wrong."""

import io
from pathlib import Path

from rich.console import Console, RenderableType

from unstuck.lab.run import Blamed, Run
from unstuck.lab.scenario import Scenario
from unstuck.lab.scenarios import load
from unstuck.lab.score import score
from unstuck.lab.table import confusion, listing, report
from unstuck.model.verdict import Cause

MACHINE: dict[str, str | int | float] = {"cores": 2, "load": 0.5, "torch": "2.13.0"}
CRASH = Scenario(
    name="crash",
    kind="death",
    program=Path("p.py"),
    causes=(Cause.PROCESS_CRASH,),
    culprits=(2,),
    goal=1.0,
)
FINE = Scenario(name="fine", kind="healthy", program=Path("p.py"), causes=())
RUNS = [
    Run("crash", 1, cause="process-crash", culprits=(Blamed(2, "a"),), seconds=0.5),
    Run("crash", 2, cause="out-of-memory", culprits=(Blamed(2, "a"),), seconds=0.5),
    Run("crash", 3, trouble="no proof of the fault within 90 s"),
    Run("fine", 1, exit_code=0, watched=360.0),
]


def text_of(what: RenderableType) -> str:
    target = io.StringIO()
    Console(file=target, width=160, highlight=False).print(what)
    return target.getvalue()


def test_the_report_has_rows_matrix_times_sentences_and_what_went_wrong():
    text = text_of(report(score([CRASH, FINE], RUNS), MACHINE))

    row = next(line for line in text.splitlines() if line.startswith("│ crash"))
    assert [cell.strip() for cell in row.strip("│").split("│")] == [
        "crash",
        "process-crash",
        "1/2",
        "2/2",
        "0",
        "0.5 / 0.5 / 0.5",
        "1 s: missed",
    ]
    assert "right cause (rows) and cause named (columns)" in text
    assert "2 of 3 runs right in every way; culprit exact in 2 of 2" in text
    assert (
        "false alarms: 0 in 0.10 healthy hours, 0.00 an hour; notices of healthy jobs: 0." in text
    )
    assert "wrong: crash 2: out-of-memory of 2; right is process-crash of 2" in text
    assert "crash 3: not counted: no proof of the fault within 90 s" in text


def test_a_matrix_that_is_too_wide_is_written_as_lines():
    causes = list(Cause)[:9]
    matrix = {str(cause): {str(cause): 5} for cause in causes} | {"no verdict": {"straggler": 1}}
    lines = text_of(confusion(matrix)).splitlines()

    assert f"5 {causes[0]}" in next(line for line in lines if line.startswith(f"│ {causes[0]}"))
    assert "1 straggler" in next(line for line in lines if line.startswith("│ no verdict"))


def test_the_list_names_each_scenario_its_fault_and_why_it_cannot_run():
    known = load()
    why_not = {each.name: "" for each in known} | {"split": "network namespaces need root"}
    text = text_of(listing(known, why_not))

    split = next(line for line in text.splitlines() if line.startswith("│ split "))
    assert "split node1 and node2" in split
    assert "network namespaces need root" in split
    assert all(f"│ {each.name} " in text for each in known)
