"""Read a rank's flight recorder over torch's C++ server, which needs no GIL."""

import json
import socket
import time
from typing import Any

from unstuck.model.rank import GroupProgress, Operation

_MOST_PENDING = 8
_MOST_RECENT = 8


def ask(path: str, handler: str, timeout: float = 1.0) -> bytes:
    """Call one handler of the server on the unix socket `path` and return the body.

    Raises:
        OSError: the process is gone, stopped, or does not answer in time.
    """
    deadline = time.monotonic() + timeout
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout)
        connection.connect(path)
        connection.sendall(
            f"POST /handler/{handler} HTTP/1.1\r\nHost: rank\r\n"
            "Content-Length: 0\r\nConnection: close\r\n\r\n".encode()
        )
        chunks: list[bytes] = []
        while chunk := connection.recv(1 << 16):
            chunks.append(chunk)
            connection.settimeout(max(0.01, deadline - time.monotonic()))
    head, _, body = b"".join(chunks).partition(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n", 1)[0]:
        raise OSError(f"{handler}: {head[:60].decode(errors='replace')}")
    return body


def answers(path: str) -> bool:
    """Tell whether the C++ side of the process still runs."""
    try:
        return ask(path, "ping", 0.5) == b"pong"
    except OSError:
        return False


def read(path: str) -> dict[str, Any]:
    """Return the recorder's content as torch writes it."""
    return json.loads(ask(path, "fr_trace_json", 2.0))


def progress(
    dump: dict[str, Any], known: tuple[GroupProgress, ...], now: float
) -> tuple[GroupProgress, ...]:
    """Bring the counters of `known` groups up to the recorder's exact state.

    `now` is Unix time, as the recorder's own stamps are.
    """
    entries: dict[str, list[dict[str, Any]]] = {}
    for entry in dump.get("entries", []):
        if not entry.get("is_p2p"):
            entries.setdefault(entry["process_group"][0], []).append(entry)
    return tuple(_merge(group, entries.get(group.name, []), now) for group in known)


def _merge(group: GroupProgress, entries: list[dict[str, Any]], now: float) -> GroupProgress:
    if not entries:
        return group
    operations = [_operation(group.name, entry, now) for entry in entries]
    pending = [item for item in operations if not item.done]
    enqueued = operations[-1].number
    return GroupProgress(
        name=group.name,
        ranks=group.ranks,
        description=group.description,
        backend=group.backend,
        enqueued=enqueued,
        completed=pending[0].number - 1 if pending else enqueued,
        pending=tuple(pending[:_MOST_PENDING]),
        recent=tuple(item for item in operations if item.done)[-_MOST_RECENT:],
    )


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
