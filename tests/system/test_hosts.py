"""The hosts that other tests stand on: they have names, reach each other and can be cut off."""

import os
import subprocess
import sys

import pytest

from unstuck.lab.hosts import Hosts

pytestmark = [pytest.mark.system, pytest.mark.namespaces]

CONNECT = "import socket; socket.create_connection(('node1', 7000), timeout=1).close()"
LISTEN = """
import socket
server = socket.create_server(("0.0.0.0", 7000))
print(socket.gethostname(), flush=True)
while True:
    server.accept()[0].close()
"""


def _reaches(hosts: Hosts) -> bool:
    argv = hosts.command(0, [sys.executable, "-c", CONNECT])
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


def test_a_link_can_be_cut_and_healed(two_hosts: Hosts) -> None:
    hosts = two_hosts
    argv = hosts.command(1, [sys.executable, "-c", LISTEN])
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "node1\n"
        assert _reaches(hosts)

        hosts.cut(1)
        assert not _reaches(hosts)

        hosts.heal(1)
        assert _reaches(hosts)
        server.kill()


def test_packets_are_lost_in_one_direction_only_and_counted(two_hosts: Hosts) -> None:
    hosts = two_hosts
    argv = hosts.command(1, [sys.executable, "-c", LISTEN])
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        server.stdout.readline()
        assert _reaches(hosts)

        hosts.ignore(1, 0)
        assert not _reaches(hosts)
        assert hosts.dropped(1) > 0
        assert hosts.dropped(0) == 0

        hosts.heed(1, 0)
        assert _reaches(hosts)

        hosts.ignore(1, 0, "udp")
        assert _reaches(hosts)
        hosts.ignore(1, 0, "tcp")
        assert not _reaches(hosts)
        hosts.heed(1, 0, "tcp")
        assert _reaches(hosts)
        server.kill()


@pytest.mark.usefixtures("two_hosts")
def test_nothing_stays_behind_after_an_exception() -> None:
    before = _namespaces()
    started: list[subprocess.Popen[bytes]] = []
    with pytest.raises(KeyboardInterrupt), Hosts(2) as made:
        _interrupted_after_start(made, started)

    assert started[0].wait(timeout=5) != 0
    assert before == _namespaces()


def _interrupted_after_start(made: Hosts, started: list[subprocess.Popen[bytes]]) -> None:
    argv = made.command(0, ["sh", "-c", "echo up; exec sleep 600"])
    started.append(subprocess.Popen(argv, stdout=subprocess.PIPE))
    assert started[0].stdout is not None
    with started[0].stdout as output:
        assert output.readline() == b"up\n"
    assert len(_namespaces()) > len(made)
    raise KeyboardInterrupt


def _namespaces() -> set[str]:
    mine = f"unstuck-{os.getpid()}-"
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.split() if name.startswith(mine)}
