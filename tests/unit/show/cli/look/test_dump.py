"""`unstuck dump`: a bundle on request, with the stacks of the ranks."""

import json
from collections.abc import Callable

import pytest

from served_runs import ServedRun
from unstuck.show.cli.main import main

Serve = Callable[..., ServedRun]


def test_it_prints_where_the_bundle_is(serve: Serve, capsys: pytest.CaptureFixture[str]):
    served = serve()
    assert main(["dump"]) == 0
    shown = capsys.readouterr()
    assert shown.out == f"{served.path / 'incident-2'}\n"
    assert shown.err.endswith("stacks of 4 ranks\n")
    assert main(["dump", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["cause"] == "busy-elsewhere"
    assert found["stacks"] == [0, 1, 2, 3]
    assert main(["diagnose", found["bundle"]]) == 1
    assert "rank 2" in capsys.readouterr().out


def test_a_job_must_run(serve: Serve, capsys: pytest.CaptureFixture[str]):
    serve().end()
    assert main(["dump", "7"]) == 2
    assert "is not running on this host" in capsys.readouterr().err
