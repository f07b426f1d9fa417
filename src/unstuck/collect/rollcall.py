"""Who fell silent and who is back, as events for the ranks of one node.

The hub tells who is silent whenever that changes. An agent that has lost the hub judges by
what it sees itself: its own ranks, and the other agents that it asks directly.
"""

import json
import time
from typing import Any

from unstuck.collect import answers
from unstuck.model.frame import Frame

ALONE_AFTER = 2.0
"""Seconds without the hub after which an agent judges for itself."""


class RollCall:
    """What was last known; every change is said once, whoever noticed it."""

    def __init__(self) -> None:
        self._silent: dict[str, Any] = {}
        self._roster: dict[str, list[int]] = {}
        self._told: dict[str, Any] = {}

    def know(self, roster: str) -> None:
        """Take over from the hub which ranks each host has."""
        self._roster = json.loads(roster)

    def hear(self, silent: dict[str, Any], *, alone: bool) -> list[str]:
        """Take in what the hub tells; while this agent judges alone, only keep it.

        What arrives then was held up by a cut: it is older than what is seen from here.
        """
        self._told = silent
        return [] if alone else self.rejoin()

    def rejoin(self) -> list[str]:
        """Go by the hub's last word again."""
        return self.update(self._told)

    def update(self, silent: dict[str, Any]) -> list[str]:
        """Take in who is silent now; return the events, one JSON object a line."""
        before, self._silent = self._silent, silent
        fell = {rank: one for rank, one in silent.items() if rank not in before}
        back = {rank: one for rank, one in before.items() if rank not in silent}
        events = [self._event("silent", fell)] if fell else []
        return [*events, self._event("back", back)] if back else events

    def held(self) -> str | None:
        """Return what somebody is told who asks only now."""
        return self._event("silent", self._silent) if self._silent else None

    @staticmethod
    def _event(event: str, ranks: dict[str, Any]) -> str:
        return json.dumps({"event": event, "ranks": ranks})

    def judge_alone(self, frame: Frame) -> list[str]:
        """Judge by what this node sees itself; others whom nobody here asks stay as they were."""
        told = answers.tell_own_peers(frame, time.time())
        silent = {rank: one for rank, one in told["ranks"].items() if one["silent"]}
        asked = {node["host"]: node for node in told["nodes"].values()}
        for host, ranks in self._roster.items():
            node = asked.get(host)
            for rank in map(str, ranks):
                if node is None and rank in self._silent:
                    silent[rank] = self._silent[rank]
                elif node is not None and node["silent"] and rank not in silent:
                    silent[rank] = self._silent.get(rank) or _lost(node)
        return self.update(silent)


def _lost(node: dict[str, Any]) -> dict[str, Any]:
    return {
        "host": node["host"],
        "state": "silent",
        "alive": False,
        "silent": True,
        "since": node["since"],
        "seconds": node["seconds"],
    }
