"""A link that is slow rather than cut: little bandwidth, or a long delay."""

import contextlib
import shutil
import subprocess
import time

from unstuck.errors import LabError
from unstuck.lab.faults.fault import Fault, Fired, Injection
from unstuck.lab.hosts import Hosts, available
from unstuck.lab.world import World


class SlowLink(Fault, frozen=True, tag="slow-link"):
    """Proven by the queue's counters: packets it has held back or sent on late."""

    host: int = 1
    kilobits: int = 0
    """Bandwidth in kbit/s of what the host sends; 0 for no limit."""
    delay_ms: int = 0

    def why_not(self) -> str:
        """Try the queueing discipline on a host made for that."""
        if shutil.which("tc") is None:
            return "not installed: tc (Debian: iproute2)"
        if reason := available():
            return reason
        with Hosts(1) as hosts:
            try:
                hosts.shape(0, *self._discipline())
            except subprocess.CalledProcessError as error:
                return f"this kernel has no {self._discipline()[0]}: {error.stderr.strip()}"
        return ""

    def inject(self, world: World) -> Injection:
        """Shape what the host sends."""
        hosts = world.need_hosts()
        at = time.time()
        try:
            hosts.shape(self.host, *self._discipline())
        except subprocess.CalledProcessError as error:
            raise LabError(f"tc refused: {error.stderr.strip()}") from error

        def look() -> Fired | None:
            packets = _packets(hosts.shaped(self.host))
            words = f"{packets} packets of node{self.host} went through the slow link"
            return Fired(at, packets, words) if packets else None

        def undo() -> None:
            with contextlib.suppress(subprocess.CalledProcessError):
                hosts.unshape(self.host)

        return Injection(look, undo)

    def _discipline(self) -> tuple[str, ...]:
        if self.delay_ms:
            rate = ("rate", f"{self.kilobits}kbit") if self.kilobits else ()
            return "netem", "delay", f"{self.delay_ms}ms", *rate
        return "tbf", "rate", f"{self.kilobits}kbit", "burst", "3kb", "latency", "10s"


def _packets(counters: str) -> int:
    """Read ` Sent 840 bytes 12 pkt (dropped 0, …)`."""
    for line in counters.splitlines():
        words = line.split()
        if words[:1] == ["Sent"]:
            return int(words[3])
    return 0
