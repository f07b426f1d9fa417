"""Signs of life of real processes: what works, reads, sends or starts children is alive."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from children import Child, child, until
from unstuck.model.life import Life, Sign
from unstuck.observe.node.process import tcp_bytes
from unstuck.observe.node.process.signs_of_life import SignsOfLife

WORK = """
import os, socket, subprocess, sys, threading, time
def begin(work):
    threading.Thread(target=work, daemon=True).start()
def burn():
    while True: pass
def read():
    while True:
        open("/proc/self/maps").read()
        time.sleep(0.05)
def start_children():
    while True:
        subprocess.run(["true"])
        time.sleep(0.3)
def child_burns():
    pid = os.fork()
    while not pid and os.getppid() > 1: pass
def send(port):
    to = socket.create_connection(("127.0.0.1", port))
    def go():
        while True:
            to.sendall(bytes(4096))
            time.sleep(0.1)
    begin(go)
"""


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[Child]:
    with child(tmp_path, WORK, os.environ) as started:
        started.do("1")
        yield started


def seen(pid: int, wanted: Sign) -> Life:
    """Look every second until the sign is there."""
    signs = SignsOfLife(pid, time.monotonic())

    def look() -> list[Life]:
        time.sleep(0.2)
        life = signs.look(time.monotonic(), 0)
        return [life] if wanted in life.signs else []

    return until(look)[0]


@pytest.mark.parametrize(
    ("work", "sign"),
    [
        ("begin(burn)", Sign.CPU),
        ("child_burns()", Sign.CPU),
        ("begin(read)", Sign.IO),
        ("begin(start_children)", Sign.CHILDREN),
    ],
)
def test_work_in_any_thread_or_child_is_a_sign(rank: Child, work: str, sign: Sign) -> None:
    rank.do(work)
    life = seen(rank.pid, sign)
    assert life.quiet_for == 0.0


def test_bytes_that_the_other_side_acknowledges_are_a_sign(rank: Child) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        rank.tell(f"send({server.getsockname()[1]})")
        there, _ = server.accept()
        rank.answer()
        reader = threading.Thread(target=lambda: all(iter(lambda: there.recv(1 << 16), b"")))
        reader.start()
        assert seen(rank.pid, Sign.NETWORK).network > 1024
        rank.end()
        reader.join()
        there.close()


def test_one_that_sleeps_is_quiet(rank: Child) -> None:
    rank.until_idle()
    signs = SignsOfLife(rank.pid, 100.0, lines=3)
    assert signs.look(100.5, 3) == Life(0.0, 0.0)
    assert signs.look(110.0, 3) == Life(looked_for=10.0, quiet_for=10.0)
    assert signs.look(120.0, 4).signs == (Sign.CODE,)
    assert signs.look(125.0, 4).quiet_for == 5.0


def test_what_was_asked_for_itself_is_no_sign(rank: Child) -> None:
    rank.until_idle()
    signs = SignsOfLife(rank.pid, 100.0)
    rank.do("len(open('/proc/self/smaps').read() * 9)")
    signs.forget_own(101.0, 0)
    assert signs.look(110.0, 0).signs == ()


def test_one_that_is_gone_shows_nothing(tmp_path: Path) -> None:
    with child(tmp_path) as short:
        signs = SignsOfLife(short.pid, 100.0)
        short.end()
        signs.look(101.0, 0)
        assert signs.look(109.0, 0).signs == ()
        assert tcp_bytes.total({short.pid}) == 0
