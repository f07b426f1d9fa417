"""`unstuck mcp`: let an AI agent ask what is wrong with a job."""

import os
import secrets
import socket
from pathlib import Path

import click

from unstuck.console import say
from unstuck.errors import UsageError, UserError, WorldError
from unstuck.show.addresses import parse_address

TOKEN = "UNSTUCK_MCP_TOKEN"  # noqa: S105 - the name of a variable


@click.command()
@click.option(
    "--http",
    metavar="HOST:PORT",
    help="Serve streamable HTTP instead of standard input and output. Port 0: any free port.",
)
@click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Read nothing outside of this directory. [default with --http: the current directory]",
)
def mcp(http: str | None, root: Path | None) -> None:
    """Let an AI agent ask what is wrong with a job (MCP server).

    The agent may list runs and incidents, read verdicts, evidence and stacks, explain logs and
    search the knowledge base. All of it only reads; nothing changes a job.

    \b
    unstuck mcp
    unstuck mcp --http 127.0.0.1:8765

    With --http every request needs `Authorization: Bearer TOKEN`. The token is that of the
    variable UNSTUCK_MCP_TOKEN; without it, a new one is made and printed.
    """
    try:
        from unstuck.show.mcp import serving
    except ImportError as error:
        raise UserError(
            f"the MCP server needs a package that is missing: {error.name}",
            hint="pip install 'unstuck[mcp]'",
        ) from error
    if http is None:
        serving.make_server(root).run("stdio")
        return
    host, port = parse_address(http, "--http")
    token = os.environ.get(TOKEN, "")
    if token and len(token) < 16:
        raise UsageError(f"{TOKEN} is too short: 16 characters at least")
    try:
        listener = socket.create_server((host, port))
    except OSError as error:
        raise WorldError(
            f"cannot listen on {http}: {(error.strerror or str(error)).lower()}"
        ) from error
    shown = token or secrets.token_urlsafe(24)
    say(f"MCP server at http://{host}:{listener.getsockname()[1]}/mcp")
    if not token:
        say(f"token: {shown}")
    serving.serve_http(serving.make_server(root or Path.cwd()), listener, host, shown)
