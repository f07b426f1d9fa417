"""Read how far this rank got in each of its process groups, without entering the hot path."""

import json
from typing import Any

from unstuck.observe.probe.p2p import PointToPointLog

Status = dict[str, tuple[int, int]]


class Groups:
    """The process groups of this rank: members once, counters at every look.

    A group that was destroyed keeps its last counters: how far a rank got stays true.
    """

    def __init__(self, c10d: Any, log: PointToPointLog) -> None:
        self._c10d = c10d
        self._log = log
        self._status_of = [
            dump
            for name in ("_dump_fr_trace_json", "_dump_nccl_trace_json")
            if (dump := getattr(c10d.torch._C._distributed_c10d, name, None)) is not None
        ]
        self.enqueued: dict[str, int] = {}
        self.members: dict[str, dict[str, Any]] = {}

    @property
    def recorder_missing(self) -> bool:
        """True where this torch has no flight recorder that can be read."""
        return not self._status_of

    def look(self) -> bool:
        """Update the counters; return True when a group came that was not known before."""
        world = self._c10d._world
        known = len(self.members)
        for group, name in list(world.pg_names.items()):
            if name not in self.members:
                self._describe(world, group, name)
            try:
                issued = int(group._get_sequence_number_for_group())
            except RuntimeError:
                continue
            # torch counts sends and receives in the same number; ours are counted apart.
            self.enqueued[name] = max(0, issued - self._log.issued.get(name, 0))
        return len(self.members) != known

    def _describe(self, world: Any, group: Any, name: str) -> None:
        self.members[name] = {
            "ranks": sorted(world.pg_group_ranks.get(group, {})),
            "description": str(getattr(group, "group_desc", "")),
            "backend": str(world.pg_map[group][0]) if group in world.pg_map else "",
        }

    def status(self) -> Status:
        """Return (enqueued, completed) per recorder id, in the recorder's own count."""
        result: Status = {}
        for dump in self._status_of:
            for key, value in json.loads(dump(False, False)).get("pg_status", {}).items():
                enqueued = int(value["last_enqueued_collective"])
                completed = int(value["last_completed_collective"])
                result[key] = (max(0, enqueued), max(0, completed))
        return result
