"""Agents probe each other directly, apart from the hub, to see whether the link works.

Each agent sends a small UDP datagram to each of its peers three times a second and answers
those of others. So a cut between two nodes that both reach the hub is seen, and a node that
only the hub has lost is known to be alive.

A datagram carries HMAC-SHA256(token, "peer" + all of it), the names of both sides, and a
number that only grows: what is forged, replayed or meant for somebody else does not count.
An answer is as small as its question and goes to the address that the hub named, never to
the one that a datagram claims to come from.
"""

import asyncio
import contextlib
import hmac
import math
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import msgspec

from unstuck.clock import SYSTEM, Clock
from unstuck.collect.learned_silence import Arrivals
from unstuck.collect.wire import Peer
from unstuck.model.host import PeerLink
from unstuck.model.liveness import PROBE_LIMITS

ASK_EVERY = 0.3
FEW = 9
"""Up to this many agents each probes all others; beyond, its neighbours in a ring."""
_NEIGHBOURS = 2
_TAG_BYTES = 16
_LATE = 0.5
_MOST_OPEN = 16


class Probe(msgspec.Struct, frozen=True, array_like=True):
    """A question, or with `answers` the answer to one."""

    sender: str
    to: str
    number: int
    answers: int = 0


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Probe)


def seal(probe: Probe, token: str) -> bytes:
    """Return the datagram."""
    body = _encoder.encode(probe)
    return _tag(body, token) + body


def unseal(data: bytes, token: str) -> Probe | None:
    """Return what a datagram says; None if it was not made with this token."""
    tag, body = data[:_TAG_BYTES], data[_TAG_BYTES:]
    if not hmac.compare_digest(tag, _tag(body, token)):
        return None
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _tag(body: bytes, token: str) -> bytes:
    return hmac.new(token.encode(), b"peer\0" + body, sha256).digest()[:_TAG_BYTES]


def choose(peers: Iterable[Peer]) -> dict[str, tuple[Peer, ...]]:
    """Decide who probes whom: everybody all others in a small job, else a ring.

    The ring is in the order of a hash of the names, so that neighbours seldom share a rack and
    an agent that joins or leaves changes little.
    """
    ring = sorted(peers, key=lambda peer: sha256(peer.node.encode()).digest())
    if len(ring) <= FEW:
        return {one.node: tuple(p for p in ring if p.host != one.host) for one in ring}
    steps = [step for step in range(-_NEIGHBOURS, _NEIGHBOURS + 1) if step]
    return {
        one.node: tuple(
            peer
            for peer in (ring[(place + step) % len(ring)] for step in steps)
            if peer.host != one.host
        )
        for place, one in enumerate(ring)
    }


class _Link:
    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.number = 0
        self.asked: dict[int, float] = {}
        self.heard: float | None = None
        self.answered: float | None = None
        self.round_trip: float | None = None
        self.arrivals = Arrivals(*PROBE_LIMITS)

    def hear(self, probe: Probe, now: float) -> None:
        self.number = probe.number
        if self.heard is not None:
            self.arrivals.note(now - self.heard)
        self.heard = now
        if probe.answers and (asked := self.asked.get(probe.answers)) is not None:
            self.answered = now
            self.round_trip = now - asked

    def forgive(self, seconds: float) -> None:
        self.heard = None if self.heard is None else self.heard + seconds
        self.answered = None if self.answered is None else self.answered + seconds

    def show(self, now: float) -> PeerLink:
        return PeerLink(
            node=self.peer.node,
            host=self.peer.host,
            heard_for=_since(self.heard, now),
            answered_for=_since(self.answered, now),
            round_trip=None if self.round_trip is None else round(self.round_trip, 6),
            suspect=self.heard is not None and now - self.heard > self.arrivals.limit,
        )


class Prober(asyncio.DatagramProtocol):
    """One agent's links to its peers. Opens nothing before `open`, probes nobody before `know`."""

    def __init__(self, node: str, token: str, clock: Clock = SYSTEM) -> None:
        self._node = node
        self._token = token
        self._clock = clock
        self._links: dict[str, _Link] = {}
        self._transport: asyncio.DatagramTransport | None = None
        self._asking: asyncio.Task[None] | None = None
        self._address = ""
        self._port = 0
        self._number = 0
        self._due = math.inf

    async def open(self, address: str) -> int:
        """Listen at this address of ours and return the port, 0 if that is not possible."""
        if self._transport is not None and address == self._address:
            return self._port
        self.close()
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.create_datagram_endpoint(
                lambda: self, local_addr=(address, 0)
            )
        except OSError:
            return 0
        self._transport, self._address = transport, address
        self._port = int(transport.get_extra_info("sockname")[1])
        self._asking = asyncio.create_task(self._keep_asking())
        return self._port

    def close(self) -> None:
        """Close the socket; may be called twice."""
        if self._asking is not None:
            self._asking.cancel()
        if self._transport is not None:
            self._transport.close()
        self._transport = self._asking = None
        self._due = math.inf

    def know(self, peers: Iterable[Peer]) -> None:
        """Take over the hub's list; what is known of peers that stay is kept."""
        fresh: dict[str, _Link] = {}
        for peer in peers:
            old = self._links.get(peer.node)
            fresh[peer.node] = old if old is not None and old.peer == peer else _Link(peer)
        self._links = fresh

    def links(self) -> tuple[PeerLink, ...]:
        """Return the state of the link to each peer."""
        now = self._clock.monotonic()
        self._forgive(now)
        return tuple(self._links[node].show(now) for node in sorted(self._links))

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:  # noqa: ARG002
        """Process a question or an answer; whoever does not know the token gets no answer."""
        probe = unseal(data, self._token)
        if probe is None or probe.to != self._node:
            return
        link = self._links.get(probe.sender)
        if link is None or probe.number <= link.number:
            return
        link.hear(probe, self._clock.monotonic())
        if not probe.answers:
            self._send(link, answers=probe.number)

    async def _keep_asking(self) -> None:
        while True:
            now = self._clock.monotonic()
            self._forgive(now)
            self._ask(now)
            self._due = now + ASK_EVERY
            await asyncio.sleep(ASK_EVERY)

    def _forgive(self, now: float) -> None:
        """Do not hold the time in which this agent itself did not run against its peers."""
        if now - self._due > _LATE:
            for link in self._links.values():
                link.forgive(now - self._due)
            self._due = now

    def _ask(self, now: float) -> None:
        for link in self._links.values():
            link.asked[self._send(link)] = now
            while len(link.asked) > _MOST_OPEN:
                del link.asked[next(iter(link.asked))]

    def _send(self, link: _Link, answers: int = 0) -> int:
        # Wall time, so that the number also grows over a restart of this agent.
        self._number = max(self._number + 1, int(self._clock.time() * 1e9))
        probe = Probe(self._node, link.peer.node, self._number, answers)
        if self._transport is not None:
            # Unreachable at the moment: the missing answer will show it.
            with contextlib.suppress(OSError, ValueError):
                where = (link.peer.address, link.peer.port)
                self._transport.sendto(seal(probe, self._token), where)
        return self._number


def _since(moment: float | None, now: float) -> float | None:
    return None if moment is None else round(now - moment, 3)
