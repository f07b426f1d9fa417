"""NCCL's account of a job, asked for over a real socket; the answers are a capture of four A10G."""

import json
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from unstuck.observe.outside import nccl_ras
from unstuck.observe.outside.nccl_ras import RasError, address, parse, read, told

PIDS = {6299: 0, 6247: 1, 6283: 2, 6261: 3}
HOSTS = ("10.0.69.85", "10.0.109.86", "10.0.120.166", "10.0.92.51")


def captured(*, behind: int = 100) -> dict[str, Any]:
    """What NCCL 2.28.9 said of four GPUs, of which the second had launched one all-reduce less."""
    counts = {"Broadcast": 0, "Reduce": 0, "AllGather": 0, "ReduceScatter": 0}
    ranks = [
        {
            "rank": rank,
            "host": HOSTS[rank],
            "pid": pid,
            "cuda_dev": 0,
            "nvml_dev": 0,
            "status": {"init_state": 0, "async_error": 0, "abort_flag": False},
            "collective_counts": {**counts, "AllReduce": behind if rank == 1 else 101},
        }
        for pid, rank in PIDS.items()
    ]
    return {
        "nccl_version": "2.28.9",
        "timestamp": "2026-09-23 11:55:37",
        "communicators_count": 1,
        "communicators": [
            {
                "hash": "0xf31e5874c3f25459",
                "size": 4,
                "ranks_count": 4,
                "missing_ranks_count": 0,
                "ranks": ranks,
                "missing_ranks": [],
            }
        ],
        "ras": {"collection_time_sec": 0.001, "timeouts_count": 0},
    }


@contextmanager
def server(answer: bytes, *, json_known: bool = True) -> Generator[int]:
    """Speak the protocol as NCCL does, and close after the answer."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rwb") as stream:
            says: dict[bytes, Callable[[], bytes]] = {
                b"CLIENT PROTOCOL 2": lambda: b"SERVER PROTOCOL 2\n",
                b"SET FORMAT json": lambda: b"OK\n" if json_known else b"ERROR: unknown\n",
                b"VERBOSE STATUS": lambda: answer,
            }
            for line in stream:
                stream.write(says[line.strip()]())
                stream.flush()
                if line.startswith(b"VERBOSE"):
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listener.getsockname()[1])
        thread.join(5)


def test_the_rank_that_has_launched_less_is_named() -> None:
    with server(json.dumps(captured(), indent=2).encode()) as port:
        account = read("127.0.0.1", port)

    assert account.nccl_version == "2.28.9"
    assert told(account, PIDS) == [
        "rank 1 has launched 100 collectives in communicator 0xf31e5874c3f25459, others 101"
    ]
    assert "pid 6247 on 10.0.109.86 has" in told(account, {})[0]


def test_ranks_that_are_level_are_no_news() -> None:
    assert told(parse(json.dumps(captured(behind=101)).encode()), PIDS) == []


def test_an_answer_of_512_ranks_is_read_whole() -> None:
    large = captured()
    one = large["communicators"][0]["ranks"][0]
    large["communicators"][0]["ranks"] = [{**one, "rank": n, "pid": n + 1} for n in range(512)]
    data = json.dumps(large, indent=4).encode()
    assert len(data) > 256 << 10
    with server(data) as port:
        assert len(read("127.0.0.1", port).communicators[0].ranks) == 512


def test_a_communicator_that_lacks_an_answer_names_who_did_not_give_one() -> None:
    lost = captured(behind=101)
    lost["communicators"][0]["missing_ranks"] = [{"rank": 3, "host": HOSTS[3], "pid": 6261}]

    assert told(parse(json.dumps(lost).encode()), PIDS) == [
        "rank 3: no answer within communicator 0xf31e5874c3f25459"
    ]


@pytest.mark.parametrize(("good", "broken"), [("},", "}"), ("]", ",]")])
def test_commas_that_are_missing_or_too_many_are_mended(good: str, broken: str) -> None:
    data = json.dumps(captured(), indent=2).replace(good, broken, 1)

    assert len(parse(data.encode()).communicators[0].ranks) == 4


def test_what_cannot_be_read_is_said_to_be() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = int(nobody.getsockname()[1])
    with pytest.raises(RasError, match="refused"):
        read("127.0.0.1", port)
    with server(b"", json_known=False) as port, pytest.raises(RasError, match="no JSON"):
        read("127.0.0.1", port)
    with server(b"{\x00") as port, pytest.raises(RasError, match="cannot be understood"):
        read("127.0.0.1", port)


def test_it_listens_where_the_variable_says() -> None:
    assert address({}) == ("localhost", nccl_ras.PORT)
    assert address({"NCCL_RAS_ADDR": "10.0.0.1:4000"}) == ("10.0.0.1", 4000)
