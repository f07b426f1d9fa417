"""Rank, host and time from the prefixes that are in the wild."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstuck.observe.logs.lines.prefix import clean, parse


@pytest.mark.parametrize(
    ("line", "rank", "host"),
    [
        ("[rank3]: Traceback (most recent call last):", 3, ""),
        ("[rank7]:[E1218 20:27:21.426415540 ProcessGroupNCCL.cpp:629] [Rank 7] Watchdog", 7, ""),
        ("[80746] [rank0]:[E321 02:07:08.408 ProcessGroupNCCL.cpp:607] x", 0, ""),
        ("[default2]:[E ProcessGroupNCCL.cpp:475] [Rank 2] Watchdog caught", 2, ""),
        ("[1,13]<stdout>:node-62:35:89 [5] NCCL WARN NET/OFI", 13, "node-62"),
        ("node-18:116:236 [3] misc/socket.cc:480 NCCL WARN Connect", None, "node-18"),
        ("[15]node-57:83:5988 [0] misc/socket.cc:503 NCCL WARN Net", 15, "node-57"),
        (
            "(WorkerDict pid=208261, ip=10.0.0.7) [W716 21:56:27.84 socket.cpp:752] x",
            None,
            "10.0.0.7",
        ),
        ("(EngineCore_DP0 pid=90) ERROR 01-04 12:27:15 [core.py:866] x", None, ""),
        ("[2025-02-08 01:17:10 TP3] Load weight end.", 3, ""),
        ("[2024-02-27T21:48:10.705869Z] fa88a9df [rank=4] || [E x] y", 4, ""),
        ("[RANK 1] 2026-05-20 08:53:07,136 [ERROR] x", 1, ""),
        ("0: Fatal Python error: Segmentation fault", 0, ""),
        ("2 :Error in Trainer", 2, ""),
        ("worker-3: RuntimeError: x", None, "worker-3"),
        (
            "10.82.21.181: node-83:13:16 [0] transport/net_ib.cc:1038 NCCL WARN x",
            None,
            "10.82.21.181",
        ),
        ("> node01: node-22:106:196 [0] transport/net_ib.cc:73 NCCL WARN x", None, "node01"),
        ("[PG ID 0 PG GUID 0(default_pg) Rank 6] Process group watchdog", 6, ""),
        ("RuntimeError: no rank here", None, ""),
        ("12:30:01 a clock is not a rank", None, ""),
    ],
)
def test_rank_and_host(line: str, rank: int | None, host: str):
    found = parse(line)
    assert (found.rank, found.host) == (rank, host)


@pytest.mark.parametrize(
    ("line", "when"),
    [
        ("2026-11-15 12:30:01,500 - train - INFO - x", "2026-11-15T12:30:01.5"),
        ("[2026-11-15T12:30:01+02:00] x", "2026-11-15T10:30:01"),
        ("[E1115 12:30:01.25 x.cpp:1] y", "2026-11-15T12:30:01.25"),
        ("[rank6]:[E902 04:39:26.5 x.cpp:1] y", "2026-09-02T04:39:26.5"),
        ("Mar 11 13:52:09 exiting", "2026-03-11T13:52:09"),
        ("[11/15/26 12:12:52] ERROR x", "2026-11-15T12:12:52"),
    ],
)
def test_time(line: str, when: str):
    moment = datetime.fromisoformat(when).replace(tzinfo=UTC).timestamp()
    assert parse(line, year=2026).time == pytest.approx(moment)


def test_colours_and_control_characters_are_taken_out():
    assert clean("\x1b[1;31mfailed\x1b[0m\x07 \x1b]0;title\x07now") == "failed now"


@given(st.text(max_size=300))
def test_no_line_breaks_the_parser(line: str):
    found = parse(clean(line))
    assert found.body in clean(line)
