"""Packets are lost in one direction only: an asymmetric route, a bad port, a full table."""

import time
from typing import Literal

from unstuck.lab.faults.fault import Fault, Fired, Injection
from unstuck.lab.faults.split import Deafness
from unstuck.lab.world import World


class OneWay(Fault, frozen=True, tag="one-way"):
    """Proven by the packets that were dropped on the receiving side."""

    host: int = 1
    lost: Literal["sent", "received"] = "sent"
    """What the host sends never arrives, or it receives nothing that others send."""

    def inject(self, world: World) -> Injection:
        """Let every other host drop what this one sends, or this one what the others send."""
        hosts = world.need_hosts()
        others = [i for i in range(len(hosts)) if i != self.host]
        sent = self.lost == "sent"
        at = time.time()
        deaf = Deafness(hosts, [(i, self.host) if sent else (self.host, i) for i in others])

        def look() -> Fired | None:
            dropped = deaf.dropped()
            words = f"{dropped} packets {'from' if sent else 'to'} node{self.host} were dropped"
            return Fired(at, dropped, words) if dropped else None

        return Injection(look, deaf.heal)
