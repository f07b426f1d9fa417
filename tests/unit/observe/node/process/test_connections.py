"""Only the connections between ranks are shut, from outside the process."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from unstuck.observe.node.process import connections

CHILD = (
    "import socket, sys\n"
    "ends = [socket.create_connection(('127.0.0.1', int(port))) for port in sys.argv[1:]]\n"
    "print('ready', flush=True)\n"
    "for end in ends:\n"
    "    got = end.recv(1)\n"
    "    print('closed' if not got else 'alive', flush=True)\n"
)


@pytest.fixture
def listeners() -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]


@pytest.fixture
def child(listeners: list[socket.socket]) -> Iterator[subprocess.Popen[str]]:
    ports = [str(one.getsockname()[1]) for one in listeners]
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, *ports], stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_connection_to_another_rank_is_shut_and_the_stores_is_not(
    listeners: list[socket.socket], child: subprocess.Popen[str]
):
    assert line(child) == "ready"
    peer, store = (one.accept()[0] for one in listeners)
    with peer, store:
        ports = {listeners[1].getsockname()[1]}
        assert connections.shut_peers(child.pid, {os.getpid()}, (), ports) == 1
        assert line(child) == "closed"
        assert peer.recv(1) == b""
        store.sendall(b"x")
        assert line(child) == "alive"


def test_connection_to_somebody_else_is_left_alone(
    listeners: list[socket.socket], child: subprocess.Popen[str]
):
    assert line(child) == "ready"
    one, other = (each.accept()[0] for each in listeners)
    with one, other:
        assert connections.shut_peers(child.pid, (), ("10.1.2.3",), ()) == 0
        one.sendall(b"x")
        other.sendall(b"x")
        assert [line(child), line(child)] == ["alive", "alive"]


def test_connection_to_a_host_of_the_job_is_shut(
    listeners: list[socket.socket], child: subprocess.Popen[str]
):
    assert line(child) == "ready"
    one, other = (each.accept()[0] for each in listeners)
    with one, other:
        assert connections.shut_peers(child.pid, (), ("127.0.0.1",), ()) == 2
        assert [line(child), line(child)] == ["closed", "closed"]


def test_process_that_is_gone_has_no_connections():
    process = subprocess.Popen(["true"])
    process.wait()
    assert list(connections.connections(process.pid)) == []
    assert connections.shut_peers(process.pid, (), ("127.0.0.1",), ()) == 0
