"""`unstuck mcp`: what is refused before anything is served; the rest is in test_serving.py."""

import socket

import pytest

from unstuck.show.cli.main import main


@pytest.mark.parametrize("address", ["8080", "localhost", ":80", "localhost:99999", "a:b"])
def test_an_address_has_host_and_port(address: str, capsys: pytest.CaptureFixture[str]):
    assert main(["mcp", "--http", address]) == 2
    assert "is not HOST:PORT" in capsys.readouterr().err


def test_a_weak_token_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("UNSTUCK_MCP_TOKEN", "secret")
    assert main(["mcp", "--http", "127.0.0.1:0"]) == 2
    assert "too short" in capsys.readouterr().err


def test_an_address_in_use(capsys: pytest.CaptureFixture[str]):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["mcp", "--http", f"127.0.0.1:{taken.getsockname()[1]}"]) == 3
    assert "cannot listen" in capsys.readouterr().err
