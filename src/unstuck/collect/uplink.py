"""The agent's way to its hub: met, kept informed, and found again when it was lost.

A hub of several nodes confirms every frame. So an agent knows when it is cut off, although a
cut network closes no connection: it says so to the people at its node, keeps its story
(`cutoff.py`), tries again every second, and hands the story in when it is back.
"""

import asyncio
import contextlib
import ipaddress
import socket
import struct
import time
from collections.abc import Iterable
from typing import Protocol

from unstuck.collect import wire
from unstuck.collect.cutoff import CutOff, Entry, Story
from unstuck.collect.peers import Prober
from unstuck.console import say
from unstuck.model.evidence import EvidenceRequest
from unstuck.model.frame import Frame
from unstuck.model.host import PeerLink
from unstuck.model.order import Order

CUT_OFF_AFTER = 2.5
QUIET_LINK = 0.75
"""When a peer that answers three times a second is silent for so long, frames hurry."""
_RETRY_LONGEST = 5.0
_RETRY_WHEN_CUT_OFF = 0.25
_MEET_WITHIN = 5.0
_MEET_WITHIN_WHEN_CUT_OFF = 2.0
_LATE = 0.5
_LAST_WORD_WITHIN = 2.5
_MOST_OPEN = 32
"""Questions to the hub at a time."""


class Reporter(Protocol):
    """What the uplink needs of the agent."""

    node: str
    host: str
    ended: bool

    @property
    def obeys(self) -> bool:
        """Tell whether the hub's orders are obeyed here."""
        ...

    def frame(self) -> Frame:
        """Return the whole state of the node."""
        ...

    def until_next_frame(self) -> float:
        """Say how long the next frame may wait."""
        ...

    def collect(self, requests: Iterable[EvidenceRequest]) -> None:
        """Begin to collect evidence."""
        ...

    def hear(self, news: wire.News) -> None:
        """Take in what the hub tells all nodes."""
        ...

    def obey(self, order: Order) -> None:
        """Do what the hub orders, if that was allowed."""
        ...

    def leave(self, why: str) -> None:
        """End the part of this node, if that was allowed."""
        ...


class Uplink:
    """Talks to the hub for as long as the job runs; the job never notices."""

    def __init__(
        self, agent: Reporter, hub: tuple[str, int], token: str, story: Story | None = None
    ) -> None:
        self._agent = agent
        self._hub = hub
        self._token = token
        self._story = story or Story(None)
        self.prober = Prober(agent.node, token)
        self.urgent = asyncio.Event()
        """Set when something happened that the hub should know at once."""
        self.done = asyncio.Event()
        """Set when the last word was said, or nobody is there to hear it."""
        self.told: CutOff | None = None
        """What the hub has yet to hear about the time without it."""
        self._confirms = False
        self._answered: float | None = None
        self._said: set[str] = set()
        self._lease = 0.0
        self._writer: asyncio.StreamWriter | None = None
        self._lost = 0.0
        self._asked = 0
        self._open: dict[int, asyncio.Future[str]] = {}

    async def talk(self) -> None:
        """Keep the hub informed; returns only by being cancelled."""
        delay = 0.1
        while True:
            try:
                reader, writer = await self._meet()
            except PermissionError as error:
                self._say_once(str(error))
                delay = _RETRY_LONGEST
            except (OSError, TimeoutError) as error:
                delay = self._not_met(error, delay)
            else:
                await self._stay(reader, writer)
                delay = 0.1
                continue
            if self._agent.ended:
                self.done.set()
            await self._pause(delay)

    async def ask(self, text: str, within: float) -> str | None:
        """Ask the hub and return its answer; None when there is none in time."""
        if self._writer is None or self._is_cut_off() or len(self._open) >= _MOST_OPEN:
            return None
        self._asked += 1
        number = self._asked
        answer = self._open[number] = asyncio.get_running_loop().create_future()
        try:
            # What this node sees belongs to the picture that is asked for.
            self._writer.write(wire.encode(wire.Report(self._agent.frame())))
            self._writer.write(wire.encode(wire.Question(number, text)))
            async with asyncio.timeout(within):
                return await answer
        except (OSError, TimeoutError):
            return None
        finally:
            del self._open[number]

    def without_hub_for(self) -> float:
        """Say for how many seconds the hub has not been there; 0 while it is, or never was."""
        if self._writer is None and not self._lost:
            return 0.0
        since = [self._lost] if self._writer is None else []
        if self._confirms and self._answered is not None:
            since.append(self._answered)
        # A connection is given up some time after the hub was heard last.
        return time.monotonic() - min(since) if since else 0.0

    def links(self) -> tuple[PeerLink, ...]:
        """Return the state of the direct ways to the other agents."""
        return self.prober.links()

    def hurries(self) -> bool:
        """Tell whether a peer has just fallen silent."""
        return any(QUIET_LINK < (one.heard_for or 0.0) < 60 for one in self.prober.links())

    # --- meeting

    async def _meet(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        within = _MEET_WITHIN_WHEN_CUT_OFF if self._story.goes_on else _MEET_WITHIN
        async with asyncio.timeout(within):
            reader, writer = await asyncio.open_connection(*self._hub, limit=1 << 20)
        self._heard_from_host()
        try:
            port = await self._open_prober(writer)
            agent = self._agent
            await introduce(reader, writer, self._token, agent.node, agent.host, port)
        except BaseException:
            writer.close()
            raise
        return reader, writer

    async def _open_prober(self, writer: asyncio.StreamWriter) -> int:
        """Open the socket for other agents, at the address that reaches the hub.

        A hub on the loopback interface has no other nodes: nothing is opened.
        """
        address = str(writer.get_extra_info("sockname")[0])
        if ipaddress.ip_address(address.partition("%")[0]).is_loopback:
            return 0
        port = await self.prober.open(address)
        self._confirms = port != 0
        return port

    def _not_met(self, error: Exception, delay: float) -> float:
        """Take note of a hub that was not met; return how long to wait."""
        if isinstance(error, ConnectionRefusedError):
            self._heard_from_host()
        if self._is_cut_off():
            self._keep_story()
            return _RETRY_WHEN_CUT_OFF
        if delay >= _RETRY_LONGEST:
            where = f"{self._hub[0]}:{self._hub[1]}"
            self._say_once(f"no hub at {where} yet; the job runs on, unwatched")
        return min(_RETRY_LONGEST, delay * 2)

    # --- talking

    async def _stay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, TimeoutError):
                await self._converse(reader, writer)
        finally:
            # A node that has ended waits for the hub's last word: that silence is no cut.
            if self._is_cut_off() and not self.done.is_set():
                self._keep_story()
                _drop(writer)
            else:
                writer.close()
        await asyncio.sleep(0.1)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._hub_is_back()
        self._writer = writer
        listening = asyncio.create_task(self._listen(reader))
        try:
            while not listening.done() and not self._is_cut_off():
                frame = self._agent.frame()
                writer.write(wire.encode(wire.Report(frame)))
                await asyncio.wait_for(writer.drain(), timeout=10)
                if frame.ended:
                    if self._agent.obeys:
                        await self._hear_last_word(listening)
                    writer.write(wire.encode(wire.Bye()))
                    await asyncio.wait_for(writer.drain(), timeout=2)
                    self.done.set()
                    return
                await self._pause(self._agent.until_next_frame())
            if listening.done() and isinstance(listening.exception(), ConnectionResetError):
                self._heard_from_host()
        finally:
            self._writer, self._lost = None, time.monotonic()
            listening.cancel()

    async def _hear_last_word(self, listening: asyncio.Task[None]) -> None:
        """The end itself may be what the hub has something to say about."""
        await asyncio.wait({listening}, timeout=_LAST_WORD_WITHIN)
        if listening.done():
            listening.exception()  # the hub has left; asyncio would complain that nobody looked

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while True:
            message = await wire.receive(reader)
            if isinstance(message, wire.Heard):
                self._note_confirmed(message.number)
            elif isinstance(message, wire.Ask):
                self._agent.collect(message.requests)
            elif isinstance(message, wire.Peers):
                self.prober.know(message.peers)
            elif isinstance(message, wire.Say):
                say(message.text)
            elif isinstance(message, wire.News):
                self._agent.hear(message)
            elif isinstance(message, wire.Do | wire.Lease):
                self._heed(message)
            elif isinstance(message, wire.Answer):
                asked = self._open.get(message.number)
                if asked is not None and not asked.done():
                    asked.set_result(message.text)

    def _heed(self, message: wire.Do | wire.Lease) -> None:
        if isinstance(message, wire.Do):
            self._agent.obey(message.order)
        else:
            self._lease = message.seconds

    def _note_confirmed(self, number: int) -> None:
        """Only a frame that arrived shows that the way to the hub works; 0 confirms none."""
        if number:
            self._heard_from_host()
            self.told = None

    async def _pause(self, seconds: float) -> None:
        """Wait, but not past the moment at which something happened."""
        began = time.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.urgent.wait()
        self.urgent.clear()
        late = time.monotonic() - began - seconds
        if late > _LATE and self._answered is not None:
            # It was this agent that did not run.
            self._answered += late

    # --- being cut off

    def _heard_from_host(self) -> None:
        self._answered = time.monotonic()

    def _is_cut_off(self) -> bool:
        if self._answered is None or not self._confirms:
            return self._story.goes_on
        return time.monotonic() - self._answered > CUT_OFF_AFTER

    def _keep_story(self) -> None:
        silent_for = time.monotonic() - self._answered if self._answered is not None else 0.0
        begins = not self._story.goes_on
        if self._lease and silent_for > self._lease:
            why = f"cut off from the hub for {silent_for:.0f} s: the others may go on without it"
            self._agent.leave(why)
        frame = self._agent.frame()
        entry = self._story.tell(silent_for, frame.links, frame.ranks)
        if begins and entry is not None:
            say(_lost_words(self._hub[0], silent_for, entry))

    def _hub_is_back(self) -> None:
        if story := self._story.end():
            self.told = story
            say(f"the hub is back after {story.seconds:.1f} s; it is told what happened here")

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            say(text)


def _drop(writer: asyncio.StreamWriter) -> None:
    """Give a dead connection up with all that waits to be sent.

    Otherwise the kernel would deliver old frames when the network is back, and then the end.
    """
    with contextlib.suppress(OSError):
        at_once = struct.pack("ii", 1, 0)
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    writer.transport.abort()


def _lost_words(hub: str, silent_for: float, entry: Entry) -> str:
    """Say it to the people at this node: who is out of reach, and that nobody here is dead."""
    alive = [str(rank.rank) for rank in entry.ranks if rank.state != "gone"]
    text = f"the hub at {hub} has been out of reach for {silent_for:.1f} s"
    if entry.heard:
        text += f", while {', '.join(entry.heard)} can be heard"
    elif entry.unheard:
        text += ", and so has every other node"
    return f"{text}; alive here and watched on: rank {', '.join(alive) or '(none)'}"


async def introduce(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    token: str,
    node: str,
    host: str,
    port: int = 0,
) -> None:
    """Do the agent's side of the handshake.

    Raises:
        PermissionError: the hub refused, or could not prove that it has the token.
        ConnectionError: whatever listens there is not a hub.
        TimeoutError: it does not answer.
    """
    challenge = await wire.receive(reader, within=5)
    if not isinstance(challenge, wire.Challenge):
        raise ConnectionError("not an unstuck hub")
    mine = wire.nonce()
    answer = wire.proof(token, "agent", challenge.nonce, mine, node)
    writer.write(wire.encode(wire.Hello(node, host, mine, answer, port=port)))
    reply = await wire.receive(reader, within=5)
    if isinstance(reply, wire.Refused):
        raise PermissionError(f"the hub refused this node: {reply.reason}")
    expected = wire.proof(token, "hub", challenge.nonce, mine, node)
    if not isinstance(reply, wire.Welcome) or not wire.same(reply.proof, expected):
        raise PermissionError("the hub could not prove that it has this job's token")
