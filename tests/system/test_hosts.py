"""The hosts that other tests stand on: they have names, reach each other and can be cut off."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

import hosts as hosts_module
from hosts import Hosts

pytestmark = [pytest.mark.system, pytest.mark.namespaces]

CONNECT = "import socket; socket.create_connection(('node1', 7000), timeout=1).close()"
LISTEN = """
import socket
server = socket.create_server(("0.0.0.0", 7000))
print(socket.gethostname(), flush=True)
while True:
    server.accept()[0].close()
"""


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    reason = hosts_module.available()
    if reason:
        pytest.skip(reason)
    with Hosts(2) as made:
        yield made


def _reaches(hosts: Hosts) -> bool:
    argv = hosts.command(0, [sys.executable, "-c", CONNECT])
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


def test_a_link_can_be_cut_and_healed(hosts: Hosts) -> None:
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


def test_nothing_stays_behind_after_an_exception() -> None:
    reason = hosts_module.available()
    if reason:
        pytest.skip(reason)
    before = _namespaces()
    with pytest.raises(KeyboardInterrupt), Hosts(2) as made:
        argv = made.command(0, ["sh", "-c", "echo up; exec sleep 600"])
        sleeper = subprocess.Popen(argv, stdout=subprocess.PIPE)
        assert sleeper.stdout is not None
        assert sleeper.stdout.readline() == b"up\n"
        raise KeyboardInterrupt

    assert sleeper.wait(timeout=5) != 0
    assert before == _namespaces()


def _namespaces() -> set[str]:
    mine = f"unstuck-{os.getpid()}-"
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.split() if name.startswith(mine)}
