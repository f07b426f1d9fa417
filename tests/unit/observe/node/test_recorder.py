"""A real dump of gloo, entries as NCCL writes them, and a server that does not answer."""

import json
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from children import until
from pairs import Pair
from unstuck.model.rank import GroupProgress, Operation
from unstuck.observe.node import recorder
from unstuck.observe.node.ranks import RankWatcher

GOLDEN = Path(__file__).parents[3] / "golden" / "recorder-gloo.json"
"""Rank 0 of two: all_reduce, three sends, broadcast, then an all_gather that waits."""
KNOWN = GroupProgress("0", (0, 1), 9, 7, "default_pg", "gloo")


def entry(number: int, **fields: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "collective_seq_id": number,
        "process_group": ["0", "default_pg"],
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": 10_000_000_000,
        "input_sizes": [[4]],
        "input_dtypes": ["Float"],
        "state": "completed",
        "retired": True,
        "is_p2p": False,
    }
    return told | fields


def progress(*entries: dict[str, Any], known: GroupProgress = KNOWN) -> GroupProgress:
    (found,) = recorder.progress({"entries": list(entries)}, (known,), 12.5)
    return found


def test_real_dump_of_gloo_gives_exact_counters_in_spite_of_sends():
    dump = json.loads(GOLDEN.read_text())
    now = dump["entries"][-1]["time_created_ns"] / 1e9 + 4
    (found,) = recorder.progress(dump, (KNOWN,), now)

    assert (found.enqueued, found.completed) == (3, 2)
    assert found.pending == (Operation("0", 3, "all_gather", ((5,),), ("Float",), 4.0),)
    assert [(op.number, op.op, op.done) for op in found.recent] == [
        (1, "all_reduce", True),
        (2, "broadcast", True),
    ]
    assert found.recent[1].sizes == ((2, 3),)
    assert found.recent[1].dtypes == ("Long",)
    assert (found.ranks, found.description, found.backend) == ((0, 1), "default_pg", "gloo")


def test_entries_of_nccl_are_done_when_completed():
    found = progress(
        entry(1),
        entry(2, retired=False),
        entry(3, state="started", retired=False),
        entry(4, state="scheduled", retired=False),
    )
    assert (found.enqueued, found.completed) == (4, 2)
    assert [op.number for op in found.pending] == [3, 4]
    assert found.pending[0].age == 2.5
    assert found.pending[0].op == "all_reduce"


def test_sends_are_no_collectives():
    found = progress(
        entry(1),
        entry(1, is_p2p=True, state="started", retired=False, profiling_name="nccl:send 0->1"),
        entry(2),
    )
    assert (found.enqueued, found.completed, found.pending) == (2, 2, ())


def test_group_of_which_the_recorder_holds_nothing_stays_as_it_is():
    assert progress(entry(5, process_group=["1", "other"])) == KNOWN


def test_lists_are_bounded():
    found = progress(
        *(entry(n) for n in range(1, 21)),
        *(entry(n, state="started", retired=False) for n in range(21, 41)),
    )
    assert [op.number for op in found.recent] == list(range(13, 21))
    assert [op.number for op in found.pending] == list(range(21, 29))
    assert (found.enqueued, found.completed) == (40, 20)


def test_real_rank_that_waits_is_read_exactly(pair: Pair):
    pair.settle()
    watcher = RankWatcher(pair.file(0), "here", time.monotonic())
    pair.ranks[0].tell("dist.all_gather([torch.ones(5), torch.ones(5)], torch.ones(5))")
    try:
        until(lambda: watcher.look(time.monotonic()).in_flight)
        watcher.read_recorder()
        state = watcher.look(time.monotonic())
    finally:
        pair.ranks[1].do("dist.all_gather([torch.ones(5), torch.ones(5)], torch.ones(5))")
        pair.ranks[0].answer()
        watcher.close(remove=False)

    (group,) = [group for group in state.groups if group.name == "0"]
    assert group.completed == group.enqueued - 1
    assert [op.op for op in group.pending] == ["all_gather"]
    assert 0 <= group.pending[0].age < 30
    assert group.ranks == (0, 1)
    assert state.recorder_age is not None


def serve(path: Path, answer: bytes) -> threading.Thread:
    """Answer one connection with these bytes, then close; without any, never answer."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def once() -> None:
        connection, _ = server.accept()
        with server, connection:
            if answer:
                connection.recv(1000)
                connection.sendall(answer)
            else:
                connection.recv(1000)
                connection.recv(1000)

    thread = threading.Thread(target=once)
    thread.start()
    return thread


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 404 Not Found\r\n\r\npong", b"garbage", b"HTTP/1.1 200 OK\r\n\r\nnot pong"],
)
def test_server_that_does_not_answer_right_does_not_answer(tmp_path: Path, answer: bytes):
    thread = serve(tmp_path / "sock", answer)
    began = time.monotonic()
    assert not recorder.answers(str(tmp_path / "sock"))
    assert time.monotonic() - began < 5
    thread.join()


def test_missing_socket(tmp_path: Path):
    assert not recorder.answers(str(tmp_path / "missing"))
    assert not recorder.answers(os.devnull)
    with pytest.raises(OSError, match="No such file"):
        recorder.read(str(tmp_path / "missing"))


@pytest.mark.parametrize("known", ["fr_trace_json", "dump_nccl_trace_json"])
def test_whatever_recorder_a_torch_has_is_read(tmp_path: Path, known: str):
    """Up to torch 2.9 there is that of NCCL alone."""
    body = json.dumps({"entries": [entry(7)]}).encode()
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "sock"))
    server.listen()

    def twice() -> None:
        for _ in range(2):
            connection, _ = server.accept()
            with connection:
                found = f"/{known} ".encode() in connection.recv(1000)
                status = b"200 OK" if found else b"404 Not Found"
                connection.sendall(b"HTTP/1.1 " + status + b"\r\n\r\n" + body)

    thread = threading.Thread(target=twice)
    thread.start()
    with server:
        found = recorder.read(str(tmp_path / "sock"))
        thread.join()
    assert [each["collective_seq_id"] for each in found["entries"]] == [7]
