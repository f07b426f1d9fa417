"""The server as agents start it: a process with standard input and output, or HTTP with a token."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from served_runs import ServedRun

Serve = Callable[..., ServedRun]
TOKEN = "a token for the tests only"


def test_over_standard_input_and_output(serve: Serve, tmp_path: Path):
    serve()
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "unstuck", "mcp"],
        cwd=tmp_path,
        env={**os.environ},
    )

    async def story() -> None:
        async with Client(server) as client:
            result = await client.call_tool("get_verdict", {})
        assert result.structured_content is not None
        assert result.structured_content["verdict"]["culprits"][0]["line"] == 31

    anyio.run(story)


@pytest.fixture
def address(serve: Serve, tmp_path: Path) -> Generator[str]:
    """Start `unstuck mcp --http` and return the address that it prints."""
    serve()
    with subprocess.Popen(
        [sys.executable, "-m", "unstuck", "mcp", "--http", "127.0.0.1:0"],
        cwd=tmp_path,
        env={**os.environ, "UNSTUCK_MCP_TOKEN": TOKEN},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        yield process.stderr.readline().split()[-1]
        process.terminate()
        process.wait(20)


def test_over_http_with_the_token_only(address: str):
    host = address.removeprefix("http://").removesuffix("/mcp")
    with socket.create_connection(("127.0.0.1", int(host.rpartition(":")[2])), 10):
        pass
    right = {"Authorization": f"Bearer {TOKEN}"}

    async def story() -> None:
        async with httpx2.AsyncClient(headers=right, timeout=20) as http:
            async with Client(streamable_http_client(address, http_client=http)) as client:
                result = await client.call_tool("get_verdict", {})
            assert result.structured_content is not None
            assert result.structured_content["state"] == "stalled"
        async with httpx2.AsyncClient(timeout=20) as http:
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}):
                assert (await http.post(address, headers=headers)).status_code == 401
            rebound = {**right, "Host": "evil.example"}
            assert (await http.post(address, headers=rebound, json={})).status_code in (400, 421)
            foreign = {**right, "Origin": "http://evil.example"}
            assert (await http.post(address, headers=foreign, json={})).status_code in (400, 403)

    anyio.run(story)
