"""`unstuck metrics`: prints once, or serves; the rest is in test_exporter.py."""

import socket
from collections.abc import Callable

import pytest

from served_runs import ServedRun
from unstuck.show.cli.main import main

Serve = Callable[..., ServedRun]


def test_it_prints_once(serve: Serve, capsys: pytest.CaptureFixture[str]):
    serve()
    assert main(["metrics"]) == 0
    assert 'unstuck_job_state{run="7",state="stalled"} 1' in capsys.readouterr().out
    assert main(["metrics", "nope"]) == 2


def test_no_job_is_no_error(serve: Serve, capsys: pytest.CaptureFixture[str]):
    assert main(["metrics"]) == 0
    assert capsys.readouterr().out.startswith("# HELP unstuck_build_info")


def test_beyond_this_host_a_token_is_needed(capsys: pytest.CaptureFixture[str]):
    assert main(["metrics", "--listen", "0.0.0.0:0"]) == 2
    assert "UNSTUCK_METRICS_TOKEN is not set" in capsys.readouterr().err


def test_an_address_in_use(capsys: pytest.CaptureFixture[str]):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["metrics", "--listen", f"127.0.0.1:{taken.getsockname()[1]}"]) == 3
    assert "cannot listen" in capsys.readouterr().err
