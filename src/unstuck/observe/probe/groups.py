"""Read how far this rank got in each of its process groups, without entering the hot path."""

import json
import os
from collections import deque
from typing import Any

from unstuck.observe.probe.calls import recording
from unstuck.observe.probe.calls.collectives import CallLog
from unstuck.observe.probe.calls.p2p import PointToPointLog
from unstuck.observe.probe.own_timeouts import group_seconds

_LAST = 8
_BLIND_AFTER = 5
"""Looks, half a second: the recorder may be a moment behind the group's own number."""
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
        self.calls = CallLog()
        """Sees the collectives where the recorder does not."""
        self._has_gpu = bool(c10d.torch.cuda.is_available())
        self._looks = 0
        self._uncounted: set[str] = set()
        self._unrecorded = 0

    def unrecorded(self) -> dict[str, Any]:
        """Return for the page what the recorder lacks: the calls, or why nobody sees them."""
        if self.calls.is_on:
            return {"calls": self.calls.entries()}
        if self._unrecorded < _BLIND_AFTER:
            return {}
        backends = {self.members[name]["backend"] for name in self._moving()}
        version = str(self._c10d.torch.__version__)
        return {"unobserved": recording.why_missing(version, backends, os.environ)}

    def _moving(self) -> list[str]:
        return [*(name for name, issued in self.enqueued.items() if issued), *self._uncounted]

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
            if (issued := self._issued(group, name)) is not None:
                self.enqueued[name] = issued
        return news

    def _issued(self, group: Any, name: str) -> int | None:
        """Return how many collectives were issued; None where the backend does not count."""
        if self.calls.is_on and self._is_all_gloo(self.members[name]["backend"]):
            return self.calls.issued(name)
        try:
            issued = int(group._get_sequence_number_for_group())
        except RuntimeError:
            self._uncounted.add(name)
            return None
        # torch counts sends and receives in the same number; ours are counted apart.
        return max(0, issued - self._log.issued.get(name, 0))

    def _is_all_gloo(self, backend: str) -> bool:
        return backend == "gloo" or ("gloo" in backend and not self._has_gpu)

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
        if self.calls.is_on:
            return self.calls.entries()
        found: dict[str, deque[dict[str, Any]]] = {}
        for dump in self._status_of:
            for entry in json.loads(dump(True, False)).get("entries", []):
                if not entry.get("is_p2p"):
                    name = entry["process_group"][0]
                    found.setdefault(name, deque(maxlen=_LAST)).append(entry)
        return [entry for entries in found.values() for entry in entries]

    def status(self) -> Status:
        """Return (enqueued, completed) per recorder id, in the recorder's own count.

        A torch may have several recorders, each with numbers of its own for the groups.
        """
        result: Status = dict(self.calls.status())
        for which, dump in enumerate(self._status_of):
            for key, value in json.loads(dump(False, False)).get("pg_status", {}).items():
                enqueued = int(value["last_enqueued_collective"])
                completed = int(value["last_completed_collective"])
                result[f"{key}/{which}" if which else key] = (max(0, enqueued), max(0, completed))
        self._unrecorded = 0 if result or not self._moving() else self._unrecorded + 1
        return result
