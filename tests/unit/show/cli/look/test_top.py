"""`unstuck top` without a terminal: once, as text or JSON."""

import json
from collections.abc import Callable

import pytest

from served_runs import ServedRun
from unstuck.show.cli.main import main

Serve = Callable[..., ServedRun]


def test_once_and_as_json(serve: Serve, capsys: pytest.CaptureFixture[str]):
    serve()
    capsys.readouterr()
    assert main(["top", "--once"]) == 0
    assert "host0 w w b w" in capsys.readouterr().out
    assert main(["top", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["grid"]["states"] == "wwbw"


def test_a_pipe_is_told_how_to_go_on(serve: Serve, capsys: pytest.CaptureFixture[str]):
    serve()
    assert main(["top"]) == 2
    assert "unstuck top --once" in capsys.readouterr().err
