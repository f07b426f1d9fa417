"""Who fell silent and who is back, as events for the ranks of one node.

The hub sends who is silent whenever that changes. An agent that has lost the hub judges by what
it sees itself: its own ranks, and the other agents that it probes.
"""

import json
from typing import Any

from unstuck.clock import SYSTEM, Clock
from unstuck.collect import answers
from unstuck.model.frame import Frame


class PeerEvents:
    """What was last known; every change is reported once, whoever noticed it."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._silent: dict[str, Any] = {}
        self._roster: dict[str, list[int]] = {}
        self._by_hub: dict[str, Any] = {}

    def set_roster(self, roster: str) -> None:
        """Take over from the hub which ranks each host has."""
        self._roster = json.loads(roster)

    def from_hub(self, silent: dict[str, Any], *, alone: bool) -> list[str]:
        """Take over who is silent according to the hub; while judging alone, only keep it.

        What arrives then was held up by a cut: it is older than what is seen from here.
        """
        self._by_hub = silent
        return [] if alone else self.rejoin()

    def rejoin(self) -> list[str]:
        """Go by what the hub sent last."""
        return self.update(self._by_hub)

    def update(self, silent: dict[str, Any]) -> list[str]:
        """Take over who is silent now; return the events, one JSON object a line."""
        before, self._silent = self._silent, silent
        fell = {rank: one for rank, one in silent.items() if rank not in before}
        back = {rank: one for rank, one in before.items() if rank not in silent}
        events = [_event("silent", fell)] if fell else []
        return [*events, _event("back", back)] if back else events

    def current(self) -> str | None:
        """Return the event for a rank that subscribes only now."""
        return _event("silent", self._silent) if self._silent else None

    def judge_alone(self, frame: Frame) -> list[str]:
        """Judge by what this node sees; others that it does not probe stay as they were."""
        seen = answers.own_peers(frame, self._clock.time())
        silent = {rank: one for rank, one in seen["ranks"].items() if one["silent"]}
        probed = {node["host"]: node for node in seen["nodes"].values()}
        for host, ranks in self._roster.items():
            node = probed.get(host)
            for rank in map(str, ranks):
                if node is None and rank in self._silent:
                    silent[rank] = self._silent[rank]
                elif node is not None and node["silent"] and rank not in silent:
                    silent[rank] = self._silent.get(rank) or _on_silent_node(node)
        return self.update(silent)


def _event(event: str, ranks: dict[str, Any]) -> str:
    return json.dumps({"event": event, "ranks": ranks})


def _on_silent_node(node: dict[str, Any]) -> dict[str, Any]:
    kept = {name: node[name] for name in ("host", "since", "seconds")}
    return {**kept, "state": "silent", "alive": False, "silent": True}
