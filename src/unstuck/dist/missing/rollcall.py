"""Asking the other ranks where they are: one datagram each, with a hard deadline.

Every rank has a helper thread with a UDP socket and writes its address into the job's store. The
thread that waits in a collective never calls the store, whose calls can hang forever when its
server is stopped; another thread fetches the addresses early in the wait.
"""

import contextlib
import json
import os
import secrets
import select
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

from torch.distributed import distributed_c10d as c10d

from unstuck.dist.base import held, sockets
from unstuck.dist.missing.answers import answer, machine, started

MOST_ASKED = 512
"""The size up to which all ranks of a group are asked; in larger ones only agents are."""
_KEY = "unstuck/rollcall"
Record = dict[str, Any]


class RollCall:
    """This rank's part in the roll call of one default group."""

    def __init__(self, pg: Any, store: Any, on_given_up: Callable[[str], None]) -> None:
        self.pg = pg
        self.on_given_up = on_given_up
        self.rank, self.size = int(pg.rank()), int(pg.size())
        self._store = store
        self._token = secrets.token_hex(8)
        self._socket: socket.socket | None = None
        self._over = False
        self._records: dict[int, Record] = {}
        self._lock = threading.Lock()
        self._wanted: set[int] = set()
        self._until = 0.0
        self._fetching: threading.Thread | None = None
        self._thread = threading.Thread(target=self._serve, name="unstuck-rollcall", daemon=True)
        self._thread.start()

    def prepare(self, ranks: Collection[int]) -> None:
        """Start fetching the addresses of ranks in the background; returns at once."""
        unknown = {rank for rank in ranks if rank != self.rank and rank not in self._records}
        if not unknown or len(unknown) > MOST_ASKED:
            return
        with self._lock:
            self._wanted |= unknown
            # A rank that has only just started gets two seconds to publish its address.
            self._until = time.monotonic() + 2.0
            if self._fetching is None:
                self._fetching = threading.Thread(
                    target=self._fetch, name="unstuck-addresses", daemon=True
                )
                self._fetching.start()

    def await_addresses(self, ranks: Collection[int], seconds: float) -> None:
        """Wait briefly for addresses that are being fetched."""
        until = time.monotonic() + seconds
        while self._fetching is not None and time.monotonic() < until:
            if all(rank in self._records for rank in ranks):
                return
            time.sleep(0.001)

    def record(self, rank: int) -> Record | None:
        """Return what a rank published about itself; None when it is not known."""
        return self._records.get(rank)

    def ask(
        self, group: str, ranks: Collection[int], seconds: float, hopeless: Callable[[int], bool]
    ) -> dict[int, Record]:
        """Ask ranks where they are in a group; return the answers that arrive in time.

        A rank found to be `hopeless`, i.e. stopped or gone, is not waited for.
        """
        until = time.monotonic() + seconds
        records = {rank: self._records[rank] for rank in ranks if rank in self._records}
        answers: dict[int, Record] = {}
        family = _family([record["address"] for record in records.values()])
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as own:
            own.setblocking(False)
            nonce = secrets.token_hex(4)
            while time.monotonic() < until:
                waited = [r for r in records if r not in answers and not hopeless(r)]
                if not waited:
                    break
                for rank in waited:
                    _send(own, records[rank], group, nonce)
                most = len(answers) + len(waited)
                _receive(own, nonce, answers, most, min(until, time.monotonic() + 0.04))
        return answers

    def tell_given_up(self, group: str, ranks: Collection[int], seconds: float) -> None:
        """Notify ranks that a group was given up, so that they stop waiting on it as well."""
        self.prepare(ranks)
        self.await_addresses(ranks, seconds)
        records = [self._records[rank] for rank in ranks if rank in self._records]
        family = _family([record["address"] for record in records])
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as own:
            for record in records:
                _send(own, record, group, "", given_up=True)

    def close(self) -> None:
        """Stop answering; returns when the threads have ended, or after half a second each."""
        self._over = True
        own = self._socket
        if own is not None:
            with contextlib.suppress(OSError):
                own.sendto(b"", own.getsockname())
        for thread in (self._thread, self._fetching):
            if thread is not None and thread is not threading.current_thread():
                thread.join(timeout=0.5)

    def abandon(self) -> None:
        """Close the socket in a forked child, where no thread serves it."""
        if self._socket is not None:
            self._socket.close()

    def _serve(self) -> None:
        try:
            store = self._store.clone()
            address = self._address()
            own = self._socket = socket.socket(_family([address]), socket.SOCK_DGRAM)
            own.bind((address, 0))
            store.set(f"{_KEY}/{self.rank}", json.dumps(self._about(own)))
            del store
            while not self._over:
                data, sender = own.recvfrom(65536)
                with contextlib.suppress(Exception):
                    self._reply(own, data, sender)
            own.close()
        except Exception:
            return  # then a timeout names no rank, nothing worse

    def _reply(self, own: socket.socket, data: bytes, sender: Any) -> None:
        question = json.loads(data) if data else {}
        if not secrets.compare_digest(str(question.get("token", "")), self._token):
            return
        if question.get("given_up"):
            self.on_given_up(str(question["group"]))
        else:
            reply = {
                **answer(str(question["group"])),
                "rank": self.rank,
                "nonce": question["nonce"],
            }
            own.sendto(json.dumps(reply).encode(errors="replace"), sender)

    def _about(self, own: socket.socket) -> Record:
        host, port = own.getsockname()[:2]
        return {
            "address": host,
            "port": port,
            "token": self._token,
            "pid": os.getpid(),
            "started": started(os.getpid()),
            "machine": machine(),
            "host": socket.gethostname(),
        }

    def _address(self) -> str:
        """Return the address at which other ranks reach this host; loopback in a world of one."""
        address = sockets.address_of(str(self.pg.group_name))
        if address:
            return address.removeprefix("::ffff:")
        store = self._store
        while getattr(store, "underlying_store", None) is not None:
            store = store.underlying_store
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((str(store.host), int(store.port)))
            return str(probe.getsockname()[0])

    def _fetch(self) -> None:
        """Look for the wanted addresses until all are found or time is up."""
        try:
            store = self._store.clone()
            while self._some_wanted():
                for rank in list(self._wanted):
                    key = f"{_KEY}/{rank}"
                    if not self._over and store.check([key]):
                        self._records[rank] = json.loads(store.get(key))
                        self._wanted.discard(rank)
                time.sleep(0.01)
        except Exception:
            with self._lock:
                self._fetching = None

    def _some_wanted(self) -> bool:
        with self._lock:
            if self._wanted and not self._over and time.monotonic() < self._until:
                return True
            self._wanted.clear()
            self._fetching = None
            return False


def _family(addresses: Iterable[str]) -> socket.AddressFamily:
    return socket.AF_INET6 if any(":" in each for each in addresses) else socket.AF_INET


def _send(
    own: socket.socket, record: Record, group: str, nonce: str, *, given_up: bool = False
) -> None:
    question = {"token": record["token"], "group": group, "nonce": nonce, "given_up": given_up}
    with contextlib.suppress(OSError):
        own.sendto(json.dumps(question).encode(), (record["address"], record["port"]))


def _receive(
    own: socket.socket, nonce: str, answers: dict[int, Record], expected: int, until: float
) -> None:
    while len(answers) < expected:
        left = until - time.monotonic()
        if left <= 0 or not select.select([own], [], [], left)[0]:
            return
        with contextlib.suppress(OSError, ValueError):
            reply: Any = json.loads(own.recvfrom(65536)[0])
            if reply.get("nonce") == nonce:
                answers[int(reply["rank"])] = reply


_current: RollCall | None = None


def join(pg: Any, store: Any, on_given_up: Callable[[str], None]) -> None:
    """Take part in the roll call of a default group; leave that of the previous one."""
    global _current
    if _current is not None and _current.pg is not pg:
        _current.close()
        _current = None
    if _current is None:
        held.new_world()
        _current = RollCall(pg, store, on_given_up)


def current() -> RollCall | None:
    """Return the roll call of the default group, if this rank takes part in it."""
    return _current if _current is not None and _current.pg is c10d.GroupMember.WORLD else None


def leave() -> None:
    """Stop taking part."""
    global _current
    if _current is not None:
        _current.close()
        _current = None


def _after_fork() -> None:
    global _current
    if _current is not None:
        _current.abandon()
    _current = None


os.register_at_fork(after_in_child=_after_fork)
