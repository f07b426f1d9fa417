"""Where the hub of a job is, and whether it is here.

One node: the hub listens on the loopback interface, on a port the system picks. Several
nodes: `--hub HOST:PORT`, else the rendezvous host and a fixed port; the node that can bind
that address runs the hub, the others connect to it.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from unstuck.collect.session import introduce
from unstuck.errors import UserError, WorldError
from unstuck.launch.command import LaunchCommand
from unstuck.launch.token import HOW_TO_SHARE, find_token

DEFAULT_PORT = 29529
_ANSWERS_WITHIN = 10.0
"""Seconds for the handshake: the hub there may only be starting."""
_HERE = "127.0.0.1"


class HubPlace(NamedTuple):
    """The hub's address; `listener` is its open socket when the hub is on this node."""

    host: str
    port: int
    token: str
    listener: socket.socket | None
    may_act: bool = True
    """Its token is a secret, so that nobody else can have it act."""

    def stores_in(self, run: Path) -> str:
        """Say where incidents are stored, as a person would look it up from here."""
        if self.listener is None:
            return f"the hub at {self.host}:{self.port}"
        return str(run.relative_to(Path.cwd()) if run.is_relative_to(Path.cwd()) else run)

    def close(self) -> None:
        """Stop listening, if the hub is here."""
        if self.listener is not None:
            self.listener.close()


def find(
    command: LaunchCommand,
    asked: str | None,
    env: Mapping[str, str],
    token_file: Path | None = None,
) -> HubPlace:
    """Decide where the hub is and open its socket if it is here.

    Raises:
        UserError: the address is malformed, taken by somebody else, or refuses our token; or the
            file of the token cannot be used.
    """
    alone = not command.several_nodes
    host, port = _address(command, asked)
    token, may_act = find_token(command, env, token_file)
    try:
        listener = _listen(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE and not alone:
            _check_existing(host, port, token, ours="here")
            return HubPlace(host, port, token, None, may_act)
        if error.errno == errno.EADDRNOTAVAIL and not alone:
            _check_existing(host, port, token, ours="elsewhere")
            return HubPlace(host, port, token, None, may_act)
        raise _cannot_listen(host, port, error) from error
    return HubPlace(host, listener.getsockname()[1], token, listener, may_act)


def _address(command: LaunchCommand, asked: str | None) -> tuple[str, int]:
    if asked:
        host, _, port = asked.rpartition(":") if ":" in asked else (asked, "", str(DEFAULT_PORT))
        if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
            raise UserError(f"--hub {asked} is not HOST or HOST:PORT", hint="--hub node0:29529")
        return host, int(port)
    if not command.several_nodes:
        return _HERE, 0
    if not command.master:
        raise UserError(
            "a job of several nodes needs to know where its hub is",
            hint="name the first node: unstuck run --hub HOST -- COMMAND",
        )
    return command.master, command.port or DEFAULT_PORT


def _listen(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    return listener


def _check_existing(host: str, port: int, token: str, *, ours: str) -> None:
    """Refuse early what could never work; a hub that is not up yet is no reason to wait."""
    try:
        asyncio.run(_try(host, port, token))
    except PermissionError as error:
        raise UserError(str(error), hint=HOW_TO_SHARE) from error
    except (OSError, TimeoutError) as error:
        if ours == "here":
            raise UserError(
                f"port {port} of {host} is taken by something that is not this job's hub",
                hint=f"choose another port: unstuck run --hub {host}:PORT -- COMMAND",
            ) from error


async def _try(host: str, port: int, token: str) -> None:
    # All nodes may ask at once, and no name is given twice.
    name = f"check/{socket.gethostname()}/{os.getpid()}"
    async with asyncio.timeout(_ANSWERS_WITHIN):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            await introduce(reader, writer, token, name, "")
        finally:
            writer.close()


def _cannot_listen(host: str, port: int, error: OSError) -> UserError | WorldError:
    if isinstance(error, socket.gaierror):
        return UserError(f"the hub's host {host} is not known here", hint=f"getent hosts {host}")
    if error.errno == errno.EADDRNOTAVAIL:
        return UserError(
            f"{host} is not an address of this machine, and the job has one node only",
            hint="leave --hub out, or give --nnodes to the launcher",
        )
    if error.errno == errno.EADDRINUSE:
        return UserError(
            f"port {port} of {host} is busy, so the hub cannot listen there",
            hint=f"choose another port: unstuck run --hub {host}:PORT -- COMMAND",
        )
    reason = (error.strerror or str(error)).lower()
    return WorldError(f"the hub cannot listen on {host}:{port}: {reason}")
