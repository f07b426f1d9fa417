"""One machine's way to another: does it connect, how fast is it, what is the time there.

Every machine answers on a port of its own while the others ask; sockets only, no torch.
"""

import contextlib
import socket
import struct
import threading
import time

from unstuck.model.rehearsal import PairResult

WITHIN = 2.0
"""Seconds for a connection."""
_PINGS = 10
_SENDS_FOR = 0.3
_DRAINS_WITHIN = 5.0
_BUFFER = 512 << 10
"""Bytes on their way at most: what a slow link must carry before it can be judged."""
_STAMP = struct.Struct("<d")
_COUNT = struct.Struct("<Qd")


class Answers:
    """Answers the pings of others, and counts what they send."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("", 0), backlog=256)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Answer nobody any more."""
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError):
        connection.settimeout(10.0)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while kind := connection.recv(1):
            if kind == b"p":
                connection.sendall(_STAMP.pack(time.time()))
            else:
                count, first = 0, 0.0
                while chunk := connection.recv(1 << 18):
                    first = first or time.monotonic()
                    count += len(chunk)
                connection.sendall(_COUNT.pack(count, time.monotonic() - first if first else 0.0))
                return


def measure(source: str, target: str, address: str, port: int, *, full: bool) -> PairResult:
    """Go the way once; with `full`, measure its bandwidth too.

    Example:
        measure("node0", "node1", "10.0.0.2", 41234, full=True).error
    """
    found = PairResult(source, target, f"{address}:{port}")
    try:
        with socket.create_connection((address, port), timeout=WITHIN) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            round_trip, offset = _ping(connection)
            bandwidth = _send(connection) if full else 0.0
    except OSError as error:
        text = (error.strerror or str(error) or type(error).__name__).lower()
        return PairResult(source, target, found.address, error=text)
    return PairResult(source, target, found.address, round_trip, bandwidth, offset)


def _ping(connection: socket.socket) -> tuple[float, float]:
    best, offset = WITHIN, 0.0
    for _ in range(_PINGS):
        before, began = time.time(), time.monotonic()
        connection.sendall(b"p")
        there = _STAMP.unpack(_receive(connection, _STAMP.size))[0]
        took = time.monotonic() - began
        if took < best:
            best, offset = took, there - (before + took / 2)
    return best, offset


def _send(connection: socket.socket) -> float:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    connection.settimeout(_DRAINS_WITHIN)
    chunk = bytes(1 << 16)
    connection.sendall(b"b")
    until = time.monotonic() + _SENDS_FOR
    while time.monotonic() < until:
        connection.sendall(chunk)
    connection.shutdown(socket.SHUT_WR)
    count, seconds = _COUNT.unpack(_receive(connection, _COUNT.size))
    return count / seconds if seconds > 0 else 0.0


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise ConnectionResetError(0, "closed by the other side")
        data += chunk
    return data


def rounds(count: int) -> list[list[tuple[int, int]]]:
    """Plan who goes to whom, so that nobody has two partners at once and all pairs occur.

    Example:
        >>> rounds(3)
        [[(1, 2)], [(0, 2)], [(0, 1)]]
    """
    seats = [*range(count), *([-1] if count % 2 else [])]
    plan: list[list[tuple[int, int]]] = []
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        pairs = zip(seats[:half], reversed(seats[half:]), strict=True)
        plan.append(sorted((min(p), max(p)) for p in pairs if min(p) >= 0))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return plan
