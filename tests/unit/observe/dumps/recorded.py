"""Dumps for the tests, built from the structure that PyTorch documents for NCCL.

This machine has no GPU, so NCCL's dumps cannot be recorded here; gloo's in tests/golden/dumps are
real. Differences kept: pg_config by name, states scheduled/started/completed, `retired` only
after completion or timeout, sends and receives as entries.
"""

import json
import pickle
from pathlib import Path
from typing import Any

from unstuck.diagnose.diagnose import diagnose
from unstuck.model.rank import RankState
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Verdict
from unstuck.observe.dumps.files import read
from unstuck.observe.dumps.to_snapshot import make_snapshot

START = 1_790_000_000_000_000_000
SECOND = 1_000_000_000


def entry(number: int, op: str = "all_reduce", **fields: Any) -> dict[str, Any]:
    """One completed NCCL operation of the default group; `fields` change it."""
    made: dict[str, Any] = {
        "record_id": number - 1,
        "pg_id": 0,
        "process_group": ["0", "default_pg"],
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "op_id": number,
        "profiling_name": f"nccl:{op}",
        "time_created_ns": START + number * SECOND,
        "input_sizes": [[4]],
        "input_dtypes": ["Float"],
        "output_sizes": [[4]],
        "output_dtypes": ["Float"],
        "state": "completed",
        "time_discovered_started_ns": START + number * SECOND,
        "time_discovered_completed_ns": START + number * SECOND,
        "retired": True,
        "timeout_ms": 600_000,
        "is_p2p": False,
    }
    return made | fields


def started(number: int, op: str = "all_reduce", **fields: Any) -> dict[str, Any]:
    """One NCCL operation that has begun on the device and does not complete."""
    return (
        entry(
            number,
            op,
            state="started",
            retired=False,
            time_discovered_completed_ns=None,
        )
        | fields
    )


def scheduled(number: int, op: str = "all_reduce", **fields: Any) -> dict[str, Any]:
    """One NCCL operation that the host has issued and the device has not begun."""
    return started(number, op, state="scheduled", time_discovered_started_ns=None) | fields


def message(number: int, what: str, **fields: Any) -> dict[str, Any]:
    """A send or receive (`send 0->1`, `recv 1<-0`) that does not complete."""
    return started(number, what, is_p2p=True, p2p_seq_id=number, collective_seq_id=0) | fields


def dump(*entries: dict[str, Any], size: int = 4, version: str = "2.10", **more: Any) -> Any:
    """One NCCL dump of a job of `size` ranks."""
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(size)))}}
    made: dict[str, Any] = {
        "version": version,
        "pg_config": config,
        "pg_status": {},
        "entries": list(entries),
    }
    return made | more


def put(folder: Path, dumps: dict[int, Any], prefix: str = "trace_") -> Path:
    """Write pickles by rank as NCCL's watchdog does: prefix and rank, nothing else."""
    folder.mkdir(exist_ok=True)
    for rank, content in dumps.items():
        (folder / f"{prefix}{rank}").write_bytes(pickle.dumps(content, 2))
    return folder


def put_json(folder: Path, dumps: dict[int, Any]) -> Path:
    """Write JSON by rank, as `_dump_nccl_trace_json` gives it."""
    folder.mkdir(exist_ok=True)
    for rank, content in dumps.items():
        (folder / f"rank{rank}.json").write_text(json.dumps(content))
    return folder


def snapshot_of(*paths: Path) -> Snapshot:
    """Return the snapshot that these dumps give."""
    return make_snapshot(read(paths))


def verdict_of(*paths: Path) -> Verdict | None:
    """Return the verdict from these dumps; None without one."""
    return diagnose(snapshot_of(*paths)).verdict


def blamed(verdict: Verdict | None) -> list[int] | None:
    """Return the ranks that a verdict blames; None without a verdict."""
    return None if verdict is None else [one.rank for one in verdict.culprits]


def rank(snapshot: Snapshot, number: int) -> RankState:
    """Return the state of one rank."""
    return next(state for state in snapshot.ranks if state.rank == number)


def gloo(*entries: dict[str, Any]) -> Any:
    """A gloo dump: never another state than scheduled, members under the empty name."""
    plain = [one | {"state": "scheduled"} for one in entries]
    for one in plain:
        one["profiling_name"] = one["profiling_name"].replace("nccl", "gloo")
    return dump(*plain, pg_config={"": {"name": "", "desc": "", "ranks": "[0, 1, 2, 3]"}})
