"""Storage far away, for the programs that need some: the last rank serves it, slowly, on loopback.

Not a child of the rank that uses it: what it does must not pass for work of that rank.
"""

import os
import socket
import tempfile
import threading
import time
from pathlib import Path

CHUNK = 16384
WHERE = Path(tempfile.gettempdir(), f"far-away-{os.environ.get('MASTER_PORT', '')}")
"""The file with the port; each job has a temporary folder of its own, or at least a port."""


def serve(bytes_per_second: float) -> None:
    """Serve everybody, where this is the last rank: by threads that end with it."""
    if int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1:
        listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=_accept, args=(listener, bytes_per_second), daemon=True).start()
        draft = WHERE.with_suffix(".draft")
        draft.write_text(str(listener.getsockname()[1]))
        draft.replace(WHERE)


def connect() -> socket.socket:
    """Connect to the server as soon as it is there."""
    while not WHERE.exists():
        time.sleep(0.1)
    return socket.create_connection(("127.0.0.1", int(WHERE.read_text())))


def upload(size: int) -> None:
    """Upload so many bytes and wait until they are stored."""
    with connect() as connection:
        connection.sendall(b"x" * size)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(64) == b"stored"


def download(size: int) -> int:
    """Download so many bytes and return how many arrived."""
    arrived = 0
    with connect() as connection:
        connection.sendall(str(size).encode())
        while part := connection.recv(CHUNK):
            arrived += len(part)
    return arrived


def _accept(listener: socket.socket, bytes_per_second: float) -> None:
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CHUNK)
        args = (connection, CHUNK / bytes_per_second)
        threading.Thread(target=_handle, args=args, daemon=True).start()


def _handle(connection: socket.socket, pace: float) -> None:
    with connection:
        if connection.recv(1, socket.MSG_PEEK).isdigit():
            for _ in range(0, int(connection.recv(64)), CHUNK):
                connection.sendall(b"x" * CHUNK)
                time.sleep(pace)
            return
        while connection.recv(CHUNK):
            time.sleep(pace)
        connection.sendall(b"stored")
