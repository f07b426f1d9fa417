"""Free a rank from a hung gloo operation, from outside: shut its connections to the other ranks.

No call of torch ends such an operation; `shutdown(2)` on its sockets does, in less than a
millisecond, also while the GIL is stuck. Only connections between ranks are shut: both ends belong
to processes of this job, or the other end is a host of this job; the store's are left alone.
Needs Linux 5.6 and the right to trace the process, which its own user has unless that is forbidden.
"""

import contextlib
import ctypes
import ipaddress
import os
import socket
import sys
from collections.abc import Collection, Iterator
from typing import NamedTuple

_PIDFD_GETFD = 438
_ESTABLISHED = "01"
_libc = ctypes.CDLL(None, use_errno=True)


class Connection(NamedTuple):
    """One established TCP connection of a process."""

    fd: int
    local: tuple[str, int]
    remote: tuple[str, int]


def shut_peers(
    pid: int, others: Collection[int], hosts: Collection[str], store_ports: Collection[int]
) -> int:
    """Shut the connections of a rank to the other ranks; return how many.

    `others` are the other ranks of this host, `hosts` the addresses of the job's other hosts.
    """
    ends = {(c.remote, c.local) for other in others if other != pid for c in connections(other)}
    return sum(
        _shut(pid, one.fd)
        for one in list(connections(pid))
        if not {one.local[1], one.remote[1]} & {*store_ports}
        and (one.remote[0] in hosts or (one.local, one.remote) in ends)
    )


def connections(pid: int) -> Iterator[Connection]:
    """Return the established TCP connections of a process."""
    known: dict[str, tuple[tuple[str, int], tuple[str, int]]] = {}
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/net/{name}") as file:
            next(file, None)
            for line in file:
                words = line.split()
                if words[3] == _ESTABLISHED:
                    known[words[9]] = (_address(words[1]), _address(words[2]))
    with contextlib.suppress(OSError):
        for entry in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                name = os.readlink(f"/proc/{pid}/fd/{entry}")
                inode = name[8:-1] if name.startswith("socket:[") else ""
                if inode in known:
                    yield Connection(int(entry), *known[inode])


def _address(text: str) -> tuple[str, int]:
    """Read an address as /proc writes it: words of the machine's byte order in hexadecimal."""
    words, _, port = text.partition(":")
    raw = b"".join(
        int(words[i : i + 8], 16).to_bytes(4, sys.byteorder) for i in range(0, len(words), 8)
    )
    address = ipaddress.ip_address(raw)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address), int(port, 16)


def _shut(pid: int, fd: int) -> bool:
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        copy = _libc.syscall(_PIDFD_GETFD, pidfd, fd, 0)
        if copy < 0:
            return False
        with socket.socket(fileno=copy) as found:
            found.shutdown(socket.SHUT_RDWR)
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True
