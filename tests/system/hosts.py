"""Several hosts on one machine: network namespaces on a bridge, each with a name of its own.

Example:
    with Hosts(2) as hosts:
        subprocess.run(hosts.command(0, ["ping", "-c1", "node1"]))
        hosts.cut(1)

"""

import contextlib
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

_PREFIX = "unstuck"
_ETC = Path("/etc/netns")
_numbers = itertools.count()


def available() -> str | None:
    """Say why hosts cannot be made here; None when they can."""
    if not sys.platform.startswith("linux"):
        return "network namespaces need Linux"
    missing = [tool for tool in ("ip", "unshare") if shutil.which(tool) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    try:
        with Hosts(1) as hosts:
            subprocess.run(hosts.command(0, ["true"]), check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        detail = getattr(error, "stderr", b"") or str(error).encode()
        return f"no right to make network namespaces: {detail.decode().strip()}"
    return None


class Hosts:
    """`count` hosts named node0, node1, … that reach each other at 10.77.0.1, 10.77.0.2, ….

    The bridge lies in a namespace of its own, so the same addresses may be in use
    by several processes at once, and nothing of the machine's own network is touched.
    """

    def __init__(self, count: int) -> None:
        tag = f"{_PREFIX}-{os.getpid()}-{next(_numbers)}"
        self._bridge = f"{tag}-bridge"
        self._names = [f"{tag}-node{i}" for i in range(count)]

    def __enter__(self) -> Self:
        _sweep()
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
        """Give the address of host `i`."""
        return f"10.77.0.{i + 1}"

    def hostname(self, i: int) -> str:
        """Give the name that host `i` has for itself and for the others."""
        return f"node{i}"

    def command(self, i: int, argv: Sequence[str]) -> list[str]:
        """Wrap `argv` so that it runs on host `i`; the process keeps its pid throughout."""
        rename = f'hostname {self.hostname(i)}; exec "$@"'
        inside = ["unshare", "--uts", "sh", "-c", rename, "sh", *argv]
        return ["ip", "netns", "exec", self._names[i], *inside]

    def cut(self, i: int) -> None:
        """Take the link of host `i` down; its processes do not notice at once."""
        _ip("-n", self._bridge, "link", "set", f"port{i}", "down")

    def heal(self, i: int) -> None:
        """Take the link of host `i` up again."""
        _ip("-n", self._bridge, "link", "set", f"port{i}", "up")

    def close(self) -> None:
        """End what still runs on the hosts and remove them; may be called twice."""
        for name in (*self._names, self._bridge):
            _remove(name)

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
        # `ip netns exec` lays these files over /etc: gloo and torchrun look their host name up.
        folder = _ETC / name
        folder.mkdir(parents=True)
        lines = [f"{self.address(i)} {self.hostname(i)}" for i in range(len(self))]
        (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))


def _ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def _remove(name: str) -> None:
    with contextlib.suppress(subprocess.CalledProcessError):
        for pid in _ip("netns", "pids", name).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        _ip("netns", "del", name)
    shutil.rmtree(_ETC / name, ignore_errors=True)
    with contextlib.suppress(OSError):
        _ETC.rmdir()


def _sweep() -> None:
    """Remove the hosts of processes that were killed before they could."""
    for line in _ip("netns", "list").splitlines():
        name = line.split()[0]
        match = re.fullmatch(rf"{_PREFIX}-(\d+)-\d+-\w+", name)
        if match and not Path(f"/proc/{match[1]}").exists():
            _remove(name)
