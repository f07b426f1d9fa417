"""`unstuck incidents`: one line each, of one run or of all."""

import json
from collections.abc import Callable

import pytest

from scenes import job
from served_runs import ServedRun
from unstuck.show import runs
from unstuck.show.cli.main import main

Serve = Callable[..., ServedRun]


def test_all_runs_are_listed_the_newest_last(serve: Serve, capsys: pytest.CaptureFixture[str]):
    serve("7").end()
    serve("8")
    runs.dump(runs.find(None))
    assert main(["incidents"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[1] for line in lines] == [
        "7/incident-1", "8/incident-1", "8/incident-2",
    ]  # fmt: skip
    assert "Rank 2 is asleep" in lines[0]
    assert main(["incidents", "--limit", "1", "7", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["incidents"]
    assert [(row["cause"], row["culprits"]) for row in rows] == [("busy-elsewhere", [2])]


def test_a_dump_and_a_damaged_bundle_are_listed_as_such(
    serve: Serve, capsys: pytest.CaptureFixture[str]
):
    served = serve(snapshot=job(4).snapshot())
    for _ in range(2):
        runs.dump(runs.find(None))
    (served.path / "incident-1" / "about.json").write_text("\x1b[31m")
    main(["incidents", "7"])
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("7/incident-1  cannot be read: ")
    assert second.endswith("7/incident-2  dump: asked for with unstuck dump")


def test_none(serve: Serve, capsys: pytest.CaptureFixture[str]):
    serve(snapshot=job(4).snapshot())
    assert main(["incidents"]) == 0
    assert capsys.readouterr().out == "no incidents in runs/7\n"
    assert main(["incidents", "nope"]) == 2


def test_no_run_here(serve: Serve, capsys: pytest.CaptureFixture[str]):
    assert main(["incidents"]) == 2
    assert "no run below runs/" in capsys.readouterr().err
