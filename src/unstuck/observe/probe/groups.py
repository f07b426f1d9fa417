"""Read how far this rank got in each of its process groups, without entering the hot path."""

import json
from collections import deque
from typing import Any

from unstuck.observe.probe.own_timeouts import group_seconds
from unstuck.observe.probe.p2p import PointToPointLog

_LAST = 8
_LOOK_AT_TIMEOUTS = 50
"""They change seldom (`set_timeout`): every 50 looks, some 5 s, is soon enough."""
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
        self._looks = 0

    @property
    def recorder_missing(self) -> bool:
        """True where this torch has no flight recorder that can be read."""
        return not self._status_of

    def look(self) -> bool:
        """Update the counters; return True when a group is new or its timeout changed."""
        world = self._c10d._world
        self._looks += 1
        news = False
        for group, name in list(world.pg_names.items()):
            if name not in self.members:
                self._describe(world, group, name)
                news = True
            if self._looks % _LOOK_AT_TIMEOUTS == 0:
                news = self._note_timeout(group, name) or news
            try:
                issued = int(group._get_sequence_number_for_group())
            except RuntimeError:
                continue
            # torch counts sends and receives in the same number; ours are counted apart.
            self.enqueued[name] = max(0, issued - self._log.issued.get(name, 0))
        return news

    def _note_timeout(self, group: Any, name: str) -> bool:
        seconds = group_seconds(group)
        changed = seconds != self.members[name]["timeout"]
        self.members[name]["timeout"] = seconds
        return changed

    def _describe(self, world: Any, group: Any, name: str) -> None:
        self.members[name] = {
            "ranks": sorted(world.pg_group_ranks.get(group, {})),
            "description": str(getattr(group, "group_desc", "")),
            "backend": str(world.pg_map[group][0]) if group in world.pg_map else "",
            "timeout": group_seconds(group),
        }

    def last_operations(self) -> list[dict[str, Any]]:
        """Return the recorder's last entries of each group, as torch writes them. Some 5 ms."""
        found: dict[str, deque[dict[str, Any]]] = {}
        for dump in self._status_of:
            for entry in json.loads(dump(True, False)).get("entries", []):
                if not entry.get("is_p2p"):
                    name = entry["process_group"][0]
                    found.setdefault(name, deque(maxlen=_LAST)).append(entry)
        return [entry for entries in found.values() for entry in entries]

    def status(self) -> Status:
        """Return (enqueued, completed) per recorder id, in the recorder's own count."""
        result: Status = {}
        for dump in self._status_of:
            for key, value in json.loads(dump(False, False)).get("pg_status", {}).items():
                enqueued = int(value["last_enqueued_collective"])
                completed = int(value["last_completed_collective"])
                result[key] = (max(0, enqueued), max(0, completed))
        return result
