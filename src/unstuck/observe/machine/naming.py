"""The names and addresses by which ranks find each other."""

import ipaddress
import os
import socket
import time
from collections.abc import Callable, Mapping

import psutil

from unstuck.model.health import Check, Rating

_SLOW = 2.0
"""Seconds: torch looks up a name for every peer."""
_VARIABLES = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
_NOT_THE_NETWORK = ("lo", "docker", "veth", "br-", "virbr", "cni", "flannel", "cali")
Resolve = Callable[[str], list[str]]


def resolve(name: str) -> list[str]:
    """Return the addresses of a host, as torch gets them.

    Raises:
        OSError: the name is not known.
    """
    return list(dict.fromkeys(str(one[4][0]) for one in socket.getaddrinfo(name, None)))


def host_name(name: str = "", resolver: Resolve = resolve, *, several: bool = False) -> Check:
    """Check that this machine's own name leads to it: gloo gives that address to its peers.

    `several` says that the job has more than one machine: a loopback address will not do then.
    """
    name = name or socket.gethostname()
    fix = f"add a line to /etc/hosts: ADDRESS {name}; or export GLOO_SOCKET_IFNAME=INTERFACE"
    began = time.monotonic()
    try:
        addresses = resolver(name)
    except OSError as error:
        text = f"{name} cannot be resolved ({error.strerror or error}): gloo and the store fail"
        return Check("host name", Rating.BAD, text, fix)
    took = time.monotonic() - began
    text = f"{name} is {', '.join(addresses[:3])}"
    if name.replace(".", "").isdigit():
        return Check(
            "host name", Rating.BAD, f"{text}: a name of digits is read as an address", fix
        )
    if took > _SLOW:
        slow = f"{text}, found after {took:.1f} s: each connection waits that long"
        return Check("host name", Rating.WARNING, slow, fix)
    if all(ipaddress.ip_address(one.partition("%")[0]).is_loopback for one in addresses):
        rating = Rating.BAD if several else Rating.OK
        why = ": ranks on other machines would look for this one at themselves"
        return Check("host name", rating, text + why * several, fix * several)
    return Check("host name", Rating.OK, text)


def interfaces(env: Mapping[str, str] = os.environ) -> list[Check]:
    """Check the network interfaces, and the variables that choose one of them."""
    stats, addresses = psutil.net_if_stats(), psutil.net_if_addrs()
    up = {
        name: [str(one.address) for one in addresses.get(name, ()) if _is_address(one.family)]
        for name, state in stats.items()
        if state.isup
    }
    usable = {n: a for n, a in up.items() if a and not n.startswith(_NOT_THE_NETWORK)}
    shown = ", ".join(f"{name} {a[0]} (mtu {stats[name].mtu})" for name, a in usable.items())
    text = shown or "only the loopback: one machine alone"
    found = [Check("interfaces", Rating.OK, text)]
    chosen = ((variable, env.get(variable, "")) for variable in _VARIABLES)
    return found + [_chosen(variable, value, up) for variable, value in chosen if value]


def _is_address(family: int) -> bool:
    return family in (socket.AF_INET, socket.AF_INET6)


def _chosen(variable: str, value: str, up: Mapping[str, list[str]]) -> Check:
    plain = value.lstrip("^=").split(",")
    matched = [
        name
        for name in up
        if any(name == one or (name.startswith(one) and variable[0] == "N") for one in plain)
    ]
    if value.startswith("^"):
        matched = [name for name in up if name not in matched]
    if not matched:
        there = ", ".join(up)
        text = f"{value}: there is no such interface here that is up ({there})"
        return Check(variable, Rating.BAD, text, f"export {variable}={next(iter(up), 'eth0')}")
    if not any(up[name] for name in matched):
        text = f"{value}: the interface has no address"
        return Check(variable, Rating.BAD, text, "give it an address, or choose another interface")
    return Check(variable, Rating.OK, f"{value}: {', '.join(matched)}")


def ports(wanted: tuple[int, ...] = (29400, 29500, 29529)) -> Check:
    """Check that the usual ports of torchrun, of the store and of the hub are free."""
    taken = [port for port in wanted if not _is_free(port)]
    if not taken:
        return Check("ports", Rating.OK, f"{', '.join(map(str, wanted))} are free")
    text = f"{', '.join(map(str, taken))} taken: by a job that runs, or by one that was left over"
    fix = f"see who has it: ss -ltnp 'sport = :{taken[0]}'; or choose another --master-port"
    return Check("ports", Rating.WARNING, text, fix)


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("", port))
        except OSError:
            return False
    return True
