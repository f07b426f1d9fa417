"""Several hosts on one machine: network namespaces on a bridge, each with its own host name.

Example:
    with Hosts(2) as hosts:
        subprocess.run(hosts.command(0, ["ping", "-c1", "node1"]))
        hosts.cut(1)

"""

import contextlib
import functools
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from unstuck.lab import owner

_PREFIX = "unstuck"
_ETC = Path("/etc/netns")
_DROP_ALL = ("tbf", "rate", "8bit", "burst", "1", "latency", "1ms")
"""No packet fits into a bucket of one byte. Used because many kernels lack netem."""
_numbers = itertools.count()


@functools.cache
def available() -> str | None:
    """Explain why hosts cannot be created here; None when they can."""
    if not sys.platform.startswith("linux"):
        return "network namespaces need Linux"
    missing = [tool for tool in ("ip", "tc", "unshare") if shutil.which(tool) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    try:
        with Hosts(1) as hosts:
            subprocess.run(hosts.command(0, ["true"]), check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        detail = getattr(error, "stderr", b"") or str(error).encode()
        return f"no permission to create network namespaces: {detail.decode().strip()}"
    return None


class Hosts:
    """`count` hosts named node0, node1, … that reach each other at 10.77.0.1, 10.77.0.2, ….

    The bridge is in a namespace of its own, so several processes can use the same addresses at
    once, and the machine's own network is not touched.
    """

    def __init__(self, count: int) -> None:
        tag = f"{_PREFIX}-{os.getpid()}-{next(_numbers)}"
        self._bridge = f"{tag}-bridge"
        self._names = [f"{tag}-node{i}" for i in range(count)]

    def __enter__(self) -> Self:
        sweep()
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._names)

    def address(self, i: int) -> str:
        """Return the address of host `i`."""
        return f"10.77.0.{i + 1}"

    def hostname(self, i: int) -> str:
        """Return the host name of host `i`."""
        return f"node{i}"

    def command(self, i: int, argv: Sequence[str]) -> list[str]:
        """Wrap `argv` so that it runs on host `i`; the process keeps its pid."""
        rename = f'hostname {self.hostname(i)}; exec "$@"'
        inside = ["unshare", "--uts", "sh", "-c", rename, "sh", *argv]
        return ["ip", "netns", "exec", self._names[i], *inside]

    def cut(self, i: int) -> None:
        """Take down the link of host `i`; its processes do not notice at once."""
        _ip("-n", self._bridge, "link", "set", f"port{i}", "down")

    def part(self, i: int, j: int) -> None:
        """Drop everything between two hosts; both still reach all others."""
        for port in (f"port{i}", f"port{j}"):
            _ip("-n", self._bridge, "link", "set", port, "type", "bridge_slave", "isolated", "on")

    def mute(self, i: int) -> None:
        """Drop what host `i` sends; it still receives from the others."""
        self.shape(i, *_DROP_ALL)

    def deafen(self, i: int) -> None:
        """Drop what is sent to host `i`; the others still receive from it."""
        _tc("-n", self._bridge, "qdisc", "add", "dev", f"port{i}", "root", *_DROP_ALL)

    def misdirect(self, i: int, j: int) -> None:
        """Drop what host `i` sends to host `j`; everything else passes."""
        nowhere = ("lladdr", "02:00:00:00:00:99", "nud", "permanent", "dev", "eth0")
        _ip("-n", self._names[i], "neigh", "replace", self.address(j), *nowhere)

    def heal(self, i: int) -> None:
        """Undo all of these for host `i`."""
        _ip("-n", self._bridge, "link", "set", f"port{i}", "up")
        off = ("type", "bridge_slave", "isolated", "off")
        _ip("-n", self._bridge, "link", "set", f"port{i}", *off)
        _ip("-n", self._names[i], "neigh", "flush", "dev", "eth0", "nud", "permanent")
        for place, device in ((self._names[i], "eth0"), (self._bridge, f"port{i}")):
            with contextlib.suppress(subprocess.CalledProcessError):
                _tc("-n", place, "qdisc", "del", "dev", device, "root")

    def close(self) -> None:
        """Kill what is still running on the hosts and remove them; may be called twice."""
        for name in (*self._names, self._bridge):
            _remove(name)

    def ignore(self, i: int, sender: int, protocol: str = "") -> None:
        """Make host `i` silently drop what host `sender` sends it, but not the other way round.

        With a protocol (`tcp`, `udp`), only that. As the receiver drops the packets, the sender
        sees no error, as with a broken cable.
        """
        rules = _ip("-n", self._names[i], "rule", "list")
        if rules.startswith("0:"):
            # The kernel looks up its own addresses first; make room for a rule before that.
            _ip("-n", self._names[i], "rule", "add", "pref", "100", "lookup", "local")
            _ip("-n", self._names[i], "rule", "del", "pref", "0")
        _ip("-n", self._names[i], "rule", "add", *self._drop(sender, protocol))

    def heed(self, i: int, sender: int, protocol: str = "") -> None:
        """Let host `i` receive again what host `sender` sends."""
        _ip("-n", self._names[i], "rule", "del", *self._drop(sender, protocol))

    def dropped(self, i: int) -> int:
        """Return how many packets host `i` has dropped because it ignores their sender."""
        text = _ip("netns", "exec", self._names[i], "cat", "/proc/net/snmp")
        names, values = [line.split() for line in text.splitlines() if line.startswith("Ip:")][:2]
        return int(values[names.index("InAddrErrors")])

    def shape(self, i: int, *qdisc: str) -> None:
        """Set a queueing discipline for what host `i` sends: `tbf rate 1mbit …`, `netem …`."""
        _tc("-n", self._names[i], "qdisc", "add", "dev", "eth0", "root", *qdisc)

    def unshape(self, i: int) -> None:
        """Let host `i` send as fast as it can again."""
        _tc("-n", self._names[i], "qdisc", "del", "dev", "eth0", "root")

    def shaped(self, i: int) -> str:
        """Return the counters of the queueing discipline of host `i`."""
        return _tc("-n", self._names[i], "-s", "qdisc", "show", "dev", "eth0")

    def is_up(self, i: int) -> bool:
        """Tell whether the link of host `i` is up, as its bridge sees it."""
        return "state UP" in _ip("-n", self._bridge, "link", "show", f"port{i}")

    def pids(self, i: int) -> set[int]:
        """Return all processes that run on host `i`."""
        return {int(pid) for pid in _ip("netns", "pids", self._names[i]).split()}

    def _drop(self, sender: int, protocol: str) -> tuple[str, ...]:
        which = ("ipproto", protocol) if protocol else ()
        return "pref", str(10 + sender), "from", self.address(sender), *which, "blackhole"

    def _build(self) -> None:
        _ip("netns", "add", self._bridge)
        _ip("-n", self._bridge, "link", "add", "bridge", "type", "bridge", "forward_delay", "0")
        _ip("-n", self._bridge, "link", "set", "bridge", "up")
        for i, name in enumerate(self._names):
            self._write_names(name)
            _ip("netns", "add", name)
            peer = ("peer", "name", f"port{i}", "netns", self._bridge)
            _ip("link", "add", "eth0", "netns", name, "type", "veth", *peer)
            _ip("-n", self._bridge, "link", "set", f"port{i}", "master", "bridge", "up")
            _ip("-n", name, "addr", "add", f"{self.address(i)}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")

    def _write_names(self, name: str) -> None:
        # `ip netns exec` mounts these files over /etc: gloo and torchrun look up their host name.
        folder = _ETC / name
        folder.mkdir(parents=True)
        lines = [f"{self.address(i)} {self.hostname(i)}" for i in range(len(self))]
        (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))


def _ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def _tc(*arguments: str) -> str:
    return subprocess.run(["tc", *arguments], check=True, capture_output=True, text=True).stdout


def _remove(name: str) -> None:
    with contextlib.suppress(subprocess.CalledProcessError):
        for pid in _ip("netns", "pids", name).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        _ip("netns", "del", name)
    shutil.rmtree(_ETC / name, ignore_errors=True)
    with contextlib.suppress(OSError):
        _ETC.rmdir()


def sweep() -> list[str]:
    """Remove the hosts of processes that were killed before they could; return their names."""
    if shutil.which("ip") is None:
        return []
    names = (line.split()[0] for line in _ip("netns", "list").splitlines())
    matches = (re.fullmatch(rf"{_PREFIX}-(\d+)-\d+-\w+", name) for name in names)
    left = [m[0] for m in matches if m and not owner.runs(int(m[1]))]
    for name in left:
        _remove(name)
    return left
