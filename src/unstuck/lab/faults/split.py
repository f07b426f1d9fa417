"""Two hosts no longer reach each other, while both still reach all the others and the hub."""

import time
from collections.abc import Sequence
from typing import Literal

from unstuck.lab.faults.fault import Fault, Fired, Injection
from unstuck.lab.hosts import Hosts
from unstuck.lab.world import World


class Split(Fault, frozen=True, tag="split"):
    """Proven by the packets that the two have dropped."""

    host: int = 1
    other: int = 2
    protocol: Literal["", "tcp"] = ""
    """With "tcp" only the ranks' connections: a firewall that lets the agents' probes pass."""

    def inject(self, world: World) -> Injection:
        """Let each of the two drop what the other sends."""
        hosts = world.need_hosts()
        at = time.time()
        both = [(self.host, self.other), (self.other, self.host)]
        deaf = Deafness(hosts, both, self.protocol)

        def look() -> Fired | None:
            lost = deaf.dropped()
            words = f"{lost} packets between node{self.host} and node{self.other} were dropped"
            return Fired(at, lost, words) if lost else None

        return Injection(look, deaf.heal)


class Deafness:
    """Pairs of hosts (who, to whom) where the first drops what the second sends."""

    def __init__(self, hosts: Hosts, pairs: Sequence[tuple[int, int]], protocol: str = "") -> None:
        self._hosts = hosts
        self._protocol = protocol
        self._pairs = list(pairs)
        self._deaf = {i for i, _ in pairs}
        self._before = {i: hosts.dropped(i) for i in self._deaf}
        for i, sender in self._pairs:
            hosts.ignore(i, sender, protocol)

    def dropped(self) -> int:
        """Count the packets that were dropped since."""
        return sum(self._hosts.dropped(i) - self._before[i] for i in self._deaf)

    def heal(self) -> None:
        """Let them hear each other again; may be called twice."""
        while self._pairs:
            self._hosts.heed(*self._pairs.pop(), self._protocol)
