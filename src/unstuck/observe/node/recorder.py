"""Read a rank's flight recorder over torch's C++ server, which needs no GIL."""

import contextlib
import json
import socket
import time
from typing import Any

from msgspec.structs import replace

from unstuck.model.rank import GroupProgress, Operation

_MOST_KEPT = 8
_DUMPS = ("fr_trace_json", "dump_nccl_trace_json")
"""Handlers of the recorders that a torch may have: up to 2.9 the second alone, later both."""
_DUMP_WITHIN = 2.0


class _MissingError(OSError):
    """The server runs, and has no such handler."""


def ask(path: str, handler: str, timeout: float = 1.0) -> bytes:
    """Call one handler of the server on the unix socket `path` and return the body.

    Raises:
        OSError: the process is gone, stopped, or does not answer in time.
    """
    deadline = time.monotonic() + timeout
    return _receive(_send(path, handler, timeout), handler, deadline)


def _send(path: str, handler: str, timeout: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(timeout)
        connection.connect(path)
        connection.sendall(
            f"POST /handler/{handler} HTTP/1.1\r\nHost: rank\r\n"
            "Content-Length: 0\r\nConnection: close\r\n\r\n".encode()
        )
    except OSError:
        connection.close()
        raise
    return connection


def _receive(connection: socket.socket, handler: str, deadline: float) -> bytes:
    chunks: list[bytes] = []
    with connection:
        connection.settimeout(max(0.01, deadline - time.monotonic()))
        while chunk := connection.recv(1 << 16):
            chunks.append(chunk)
            connection.settimeout(max(0.01, deadline - time.monotonic()))
    head, _, body = b"".join(chunks).partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0]
    if b" 404 " in status:
        raise _MissingError(f"{handler}: this torch has no such handler")
    if b" 200 " not in status:
        raise OSError(f"{handler}: {head[:60].decode(errors='replace')}")
    return body


def answers(path: str) -> bool:
    """Tell whether the C++ side of the process still runs."""
    try:
        return ask(path, "ping", 0.5) == b"pong"
    except OSError:
        return False


def read(path: str) -> dict[str, Any]:
    """Return the content of all recorders as torch writes it.

    Raises:
        OSError: there is none, or the process does not answer.
    """
    found: list[dict[str, Any]] = []
    for dump in _DUMPS:
        with contextlib.suppress(_MissingError):
            found.append(json.loads(ask(path, dump, _DUMP_WITHIN)))
    if not found:
        raise OSError("this torch has no recorder that can be read")
    return {**found[0], "entries": [one for dump in found for one in dump.get("entries", ())]}


def begin(path: str) -> socket.socket | None:
    """Ask for the first recorder's content without waiting at all; see `finish`."""
    with contextlib.suppress(OSError):
        return _send(path, _DUMPS[0], 0)
    return None


def finish(connection: socket.socket) -> dict[str, Any]:
    """Return what `begin` asked for; nothing where this torch has another recorder only."""
    with contextlib.suppress(_MissingError):
        return json.loads(_receive(connection, _DUMPS[0], time.monotonic() + _DUMP_WITHIN))
    return {}


def progress(
    dump: dict[str, Any],
    known: tuple[GroupProgress, ...],
    now: float,
    roots: dict[str, list[list[Any]]] | None = None,
) -> tuple[GroupProgress, ...]:
    """Bring the counters of `known` groups up to the recorder's exact state.

    `now` is Unix time, as the recorder's own stamps are; `roots` are the last ones per group.
    """
    roots = roots or {}
    entries: dict[str, list[dict[str, Any]]] = {}
    for entry in dump.get("entries", []):
        if not entry.get("is_p2p"):
            entries.setdefault(entry["process_group"][0], []).append(entry)
    return tuple(
        _merge(group, entries.get(group.name, []), now, roots.get(group.name, []))
        for group in known
    )


def _merge(
    group: GroupProgress, entries: list[dict[str, Any]], now: float, roots: list[list[Any]]
) -> GroupProgress:
    if not entries:
        return group
    operations = [_operation(group.name, entry, now) for entry in entries]
    _add_roots(operations, list(roots))
    return group.with_operations(operations, operations[-1].number, _MOST_KEPT)


def _add_roots(operations: list[Operation], roots: list[list[Any]]) -> None:
    """Both are in the order of the calls: the newest of one kind belong together."""
    for index in range(len(operations) - 1, -1, -1):
        if not roots:
            return
        if operations[index].op == roots[-1][0]:
            operations[index] = replace(operations[index], root=roots.pop()[1])


def _operation(group: str, entry: dict[str, Any], now: float) -> Operation:
    return Operation(
        group=group,
        number=entry["collective_seq_id"],
        op=entry["profiling_name"].partition(":")[2] or entry["profiling_name"],
        sizes=tuple(tuple(size) for size in entry.get("input_sizes", [])),
        dtypes=tuple(entry.get("input_dtypes", [])),
        age=round(now - entry["time_created_ns"] / 1e9, 3),
        done=bool(entry.get("retired")) or entry.get("state") == "completed",
    )
