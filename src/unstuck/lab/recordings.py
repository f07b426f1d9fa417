"""Write a simulated job as flight-recorder dumps, as NCCL's watchdog leaves them on disk.

They have format 2.10: one pickle (protocol 2) per rank, with every operation since the start of
the job. Ranks that are dead or stopped leave none.
"""

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

from unstuck.lab.layout import Group, Layout
from unstuck.lab.simulate import (
    NOW,
    OPS,
    SIZES,
    STALLED,
    FaultKind,
    Issued,
    Simulation,
    calls_of,
    completed_upto,
    inverts,
    issued,
    spread,
    waits,
)

PREFIX = "trace_"
_TIMEOUT_MS = 60_000
_SECOND = 1_000_000_000


def write(simulation: Simulation, directory: Path, *, active: bool = False) -> int:
    """Write `trace_<rank>` for every rank that can still write; return how many.

    `active` leaves out what has completed, and counts it in `pg_status` only.

    Example:
        write(draw(7), Path("traces"))
    """
    layout, fault = simulation.layout, simulation.fault
    lost = fault.rank if fault.kind in (FaultKind.DEAD, FaultKind.STOPPED) else -1
    stuck_at = spread(simulation)
    configs = _Configs(layout)
    for rank in range(layout.size):
        if rank != lost:
            dump = _dump(simulation, rank, stuck_at[rank], configs)
            if active:
                dump = _only_active(dump, configs)
            (directory / f"{PREFIX}{rank}").write_bytes(pickle.dumps(dump, protocol=2))
    return layout.size - (lost >= 0)


def _only_active(dump: dict[str, Any], configs: "_Configs") -> dict[str, Any]:
    """Keep what has not completed; sends and receives count like collectives.

    As in NCCL the name of a group is its number in the job, and `pg_id` its number on the rank.
    """
    names = {name: configs.numbers[name] for name in dump["pg_config"]}
    own = {number: place for place, number in enumerate(sorted(names.values()))}
    status: dict[str, dict[str, int]] = {}
    left: list[dict[str, Any]] = []
    for one in dump["entries"]:
        name, description = one["process_group"]
        key, number = own[names[name]], one["collective_seq_id"] + one["p2p_seq_id"]
        counts = status.setdefault(str(key), {"last_completed_collective": 0})
        counts |= {"last_enqueued_collective": number, "last_started_collective": -1}
        if one["retired"]:
            counts["last_completed_collective"] = number
            continue
        place = {"pg_id": key, "process_group": (str(names[name]), description)}
        left.append(one | place | {"state": "scheduled"})
    config = {str(names[name]): one for name, one in dump["pg_config"].items()}
    return {"version": "2.9", "pg_config": config, "pg_status": status, "entries": left}


def _dump(simulation: Simulation, rank: int, stuck_at: int, configs: "_Configs") -> dict[str, Any]:
    layout, fault = simulation.layout, simulation.fault
    stage = layout.place(rank)[1]
    inverted = inverts(simulation, rank)
    upto, more = completed_upto(simulation, rank, stuck_at)
    begun: tuple[Issued, ...] = ()
    if waits(simulation, rank):
        begun = issued(simulation, stage, upto, inverted=inverted, more=more)
    calls = [*calls_of(simulation, stage, upto), *begun]
    done = len(calls) - len(begun)
    wrong = done if fault.kind is FaultKind.WRONG_OP and rank == fault.rank else -1
    collectives: Counter[str] = Counter()
    messages: Counter[str] = Counter()
    entries: list[dict[str, Any]] = []
    for record, one in enumerate(calls):
        group = layout.group(one.call.kind, rank)
        (messages if one.call.kind == "hop" else collectives)[group.name] += 1
        named = "broadcast" if record == wrong else _named(one, stage)
        numbers = (record, collectives[group.name], messages[group.name])
        entry = _entry(numbers, done, one.call.kind, named)
        place = {"process_group": (group.name, _description(one.call.kind))}
        entries.append(entry | place | {"pg_id": configs.number(group)})
    return {"version": "2.10", "pg_config": configs.of(rank), "pg_status": {}, "entries": entries}


def _entry(numbers: tuple[int, int, int], done: int, kind: str, named: str) -> dict[str, Any]:
    record, collective, message = numbers
    # Ages as in `simulate.snapshot`: the first to be issued is the oldest.
    waited = STALLED - (record - done) / 1000
    sizes = [[SIZES.get(kind, 1024)]]
    return {
        "record_id": record,
        "collective_seq_id": collective,
        "p2p_seq_id": message,
        "op_id": record + 1,
        "profiling_name": f"nccl:{named}",
        "time_created_ns": int((NOW - waited) * _SECOND),
        "input_sizes": sizes,
        "input_dtypes": ["Float"],
        "output_sizes": sizes,
        "output_dtypes": ["Float"],
        "state": _state(record, done),
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": record < done,
        "timeout_ms": _TIMEOUT_MS,
        "is_p2p": kind == "hop",
        "frames": [{"name": "train", "filename": "train.py", "line": 20}],
    }


def _state(record: int, done: int) -> str:
    if record < done:
        return "completed"
    return "started" if record == done else "scheduled"


def _named(one: Issued, stage: int) -> str:
    """Name an operation as NCCL does: a message by ranks within its group, `send 0->1`."""
    if one.call.kind != "hop":
        return OPS[one.kind]
    word, peer = one.kind.split()
    return f"{word} {stage}{'->' if word == 'send' else '<-'}{peer}"


def _description(kind: str) -> str:
    return {"world": "default_pg", "hop": "pp"}.get(kind, kind)


class _Configs:
    """The `pg_config` of each rank; ranks of a group share its text."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._texts: dict[str, str] = {}
        self.numbers: dict[str, int] = {}

    def number(self, group: Group) -> int:
        return self.numbers.setdefault(group.name, len(self.numbers))

    def of(self, rank: int) -> dict[str, dict[str, str]]:
        kinds = dict.fromkeys(call.kind for call in self._layout.step)
        found: dict[str, dict[str, str]] = {}
        for kind in kinds:
            group = self._layout.group(kind, rank)
            self.number(group)
            text = self._texts.setdefault(group.name, str(list(group.ranks)))
            found[group.name] = {"name": group.name, "desc": _description(kind), "ranks": text}
        return found
