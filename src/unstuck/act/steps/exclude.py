"""Exclude: continue without a node, and remember why; it may return by command or after a time.

The ranks of a node that was only cut off still live. Its agent ends them when its lease has run
out (`Limits.lease`), so the others are restarted only after that: two halves never train at once.
"""

import contextlib
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from unstuck.act.plan import lost_hosts
from unstuck.act.steps.restart import BACK_WITHIN, GONE_WITHIN
from unstuck.act.steps.step import Actuator, Incident, Reach, alive, living
from unstuck.clock import SYSTEM, Clock
from unstuck.files import write_whole
from unstuck.model.action import Step
from unstuck.model.exits import Exit
from unstuck.model.order import Act
from unstuck.model.snapshot import NodeState, Snapshot

FILE = "excluded.json"
MARGIN = 5.0
"""An agent that fell silent may have heard the hub a little later than the hub heard it."""


class Excluded(Struct, frozen=True):
    """One node that must stay away."""

    host: str
    reason: str
    since: float
    """Unix time."""
    until: float = 0.0
    """Unix time from which it is allowed back; 0: by command only."""


def read(run: Path, now: float | None = None) -> tuple[Excluded, ...]:
    """Return the nodes that must stay away now; damaged or missing files name none."""
    moment = SYSTEM.time() if now is None else now
    try:
        found = msgspec.json.decode((run / FILE).read_bytes(), type=tuple[Excluded, ...])
    except (OSError, msgspec.MsgspecError):
        return ()
    return tuple(one for one in found if not one.until or one.until > moment)


def write(run: Path, excluded: tuple[Excluded, ...]) -> None:
    """Remember these nodes.

    Raises:
        OSError: the run directory cannot be written.
    """
    write_whole(run / FILE, msgspec.json.format(msgspec.json.encode(excluded)) + b"\n")


def remember(run: Path, incident: Incident, now: float, until: float) -> None:
    """Remember that the hosts to blame must stay away, if the disk allows it."""
    hosts, reason = lost_hosts(incident.verdict), incident.verdict.summary
    fresh = tuple(Excluded(host, reason, now, until) for host in hosts)
    old = tuple(one for one in read(run, now) if one.host not in hosts)
    with contextlib.suppress(OSError):
        write(run, (*old, *fresh))


class Exclude(Actuator):
    """Sends the node away, waits until it surely has no ranks left, and restarts the others."""

    def __init__(self, incident: Incident, step: Step, run: Path, clock: Clock) -> None:
        self._incident = incident
        self._hosts = lost_hosts(incident.verdict)
        self._run = run
        self._since = clock.time()
        self._until = self._since + step.seconds if step.seconds else 0.0
        self._remembered = False
        self._lease = incident.policy.limits.lease
        self._nodes = incident.snapshot.nodes
        others = frozenset(s.rank for s in incident.snapshot.ranks if s.host in self._hosts)
        self._targets = living(incident.snapshot, but=others)
        self.limit = self._lease + MARGIN + GONE_WITHIN

    def facts(self) -> dict[str, Any]:
        """Say which hosts, and until when."""
        return {"hosts": list(self._hosts), "until": self._until}

    def carry_out(self, reach: Reach, number: int) -> None:
        """Send the node away; restart the others when its ranks are surely gone."""
        if not self._remembered:
            self._remembered = True
            remember(self._run, self._incident, self._since, self._until)
        away = self._incident.order(number, Act.STOP, hosts=self._hosts, code=Exit.LEFT.value)
        reach.order(away)
        if self._targets and self._has_left():
            reach.order(self._incident.order(number + 1, Act.END, self._targets))

    def finished(self, snapshot: Snapshot) -> bool:
        """Note who is gone; the plan ends when the new attempt has started."""
        self._targets = alive(self._targets, snapshot)
        if not self._targets:
            self.limit = self._lease + MARGIN + BACK_WITHIN
        self._nodes = snapshot.nodes
        return False

    def _has_left(self) -> bool:
        lost = [node for node in self._nodes if node.host in self._hosts]
        return all(_left(node, self._lease + MARGIN) for node in lost)


def _left(node: NodeState, patience: float) -> bool:
    return node.ended or node.silent_for > patience
