"""The agent's connection to its hub: made, kept up, and made again when it was lost.

A hub of several nodes confirms every frame. So an agent knows when it is cut off, although a
cut network closes no connection: it says so to the people at its node, keeps a record
(`cut_off.py`), tries again every second, and reports the record when it is back.
"""

import asyncio
import contextlib
import ipaddress
from collections.abc import Iterable
from typing import Protocol

from unstuck.clock import SYSTEM, Clock
from unstuck.collect import wire
from unstuck.collect.agent.cut_off import CutOff, CutOffLog
from unstuck.collect.peer_probe import Prober
from unstuck.collect.session import AlteredError, Session, introduce
from unstuck.console import say
from unstuck.model.frame import Frame
from unstuck.model.liveness import CUT_OFF_AFTER, PROBE_LATE
from unstuck.model.order import Order
from unstuck.model.requests import EvidenceRequest

SEND_EVERY = 1.0
"""Seconds from one frame to the next while all is well."""
_RETRY_FIRST = 0.1
_RETRY_LONGEST = 5.0
_RETRY_WHEN_CUT_OFF = 0.25
_CONNECT_WITHIN = 5.0
_CONNECT_WITHIN_WHEN_CUT_OFF = 2.0
_LATE = 0.5
_LAST_ORDER_WITHIN = 2.5
_EAGER_ABOUT_PEER_FOR = 60.0
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
        """Return how long the next frame may wait."""
        ...

    def collect(self, requests: Iterable[EvidenceRequest]) -> None:
        """Begin to collect evidence."""
        ...

    def receive(self, news: wire.News) -> None:
        """Receive what the hub sends to all nodes."""
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
        self,
        agent: Reporter,
        hub: tuple[str, int],
        token: str,
        cut_offs: CutOffLog | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        self._agent = agent
        self._hub = hub
        self._token = token
        self._clock = clock
        self._cut_offs = cut_offs or CutOffLog(None, clock)
        self.prober = Prober(agent.node, token, clock)
        self.urgent = asyncio.Event()
        """Set when something happened that the hub should know at once."""
        self.done = asyncio.Event()
        """Set when the last frame was sent, or nobody is there to receive it."""
        self.unreported: CutOff | None = None
        """What the hub does not know yet about the time without it."""
        self._confirms = False
        self._answered: float | None = None
        self._said: set[str] = set()
        self._lease = 0.0
        self._session: Session | None = None
        self._lost = 0.0
        self._asked = 0
        self._open: dict[int, asyncio.Future[str]] = {}

    async def talk(self) -> None:
        """Keep the hub informed; returns only by being cancelled."""
        delay = _RETRY_FIRST
        while True:
            try:
                session = await self._connect()
            except PermissionError as error:
                self._say_once(str(error))
                delay = _RETRY_LONGEST
            except (OSError, TimeoutError) as error:
                delay = self._not_connected(error, delay)
            else:
                await self._stay(session)
                delay = _RETRY_FIRST
                continue
            if self._agent.ended:
                self.done.set()
            await self._pause(delay)

    async def ask(self, text: str, within: float) -> str | None:
        """Ask the hub and return its answer; None when there is none in time."""
        session = self._session
        if session is None or self._is_cut_off() or len(self._open) >= _MOST_OPEN:
            return None
        self._asked += 1
        number = self._asked
        answer = self._open[number] = asyncio.get_running_loop().create_future()
        try:
            # The answer should include what this node sees now.
            self._send_frame(session)
            session.send(wire.Question(number, text))
            async with asyncio.timeout(within):
                return await answer
        except (OSError, TimeoutError):
            return None
        finally:
            del self._open[number]

    def without_hub_for(self) -> float:
        """Return for how many seconds the hub has been away; 0 while it is there, or never was."""
        if self._session is None and not self._lost:
            return 0.0
        since = [self._lost] if self._session is None else []
        if self._confirms and self._answered is not None:
            since.append(self._answered)
        # A connection is given up some time after the hub was last heard.
        return self._clock.monotonic() - min(since) if since else 0.0

    def misses_a_peer(self) -> bool:
        """Tell whether a peer has just fallen silent."""
        ages = (link.heard_for or 0.0 for link in self.prober.links())
        return any(PROBE_LATE < age < _EAGER_ABOUT_PEER_FOR for age in ages)

    # --- connecting

    async def _connect(self) -> Session:
        is_open = self._cut_offs.is_open
        async with asyncio.timeout(_CONNECT_WITHIN_WHEN_CUT_OFF if is_open else _CONNECT_WITHIN):
            reader, writer = await asyncio.open_connection(*self._hub, limit=1 << 20)
        self._hub_answered()
        try:
            port = await self._open_prober(writer)
            agent = self._agent
            return await introduce(reader, writer, self._token, agent.node, agent.host, port)
        except BaseException:
            writer.close()
            raise

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

    def _not_connected(self, error: Exception, delay: float) -> float:
        """Note that the hub could not be reached; return how long to wait."""
        if isinstance(error, ConnectionRefusedError):
            self._hub_answered()
        if self._is_cut_off():
            self._record_cut_off()
            return _RETRY_WHEN_CUT_OFF
        if delay >= _RETRY_LONGEST:
            where = f"{self._hub[0]}:{self._hub[1]}"
            self._say_once(f"no hub at {where} yet; the job continues, unwatched")
        return min(_RETRY_LONGEST, delay * 2)

    # --- talking

    async def _stay(self, session: Session) -> None:
        try:
            with contextlib.suppress(OSError, TimeoutError):
                await self._converse(session)
        finally:
            # A node that has ended waits for the hub's last order: that silence is no cut.
            if self._is_cut_off() and not self.done.is_set():
                self._record_cut_off()
                session.abort()
            else:
                session.close()
        await asyncio.sleep(_RETRY_FIRST)

    async def _converse(self, session: Session) -> None:
        if cut_off := self._cut_offs.end():
            self.unreported = cut_off
            say(f"the hub is back after {cut_off.seconds:.1f} s and learns what happened here")
        self._session = session
        listening = asyncio.create_task(self._listen(session))
        try:
            while not listening.done() and not self._is_cut_off():
                ended = self._send_frame(session)
                await session.drain(10)
                if ended:
                    if self._agent.obeys:
                        await self._await_last_order(listening)
                    session.send(wire.Bye())
                    await session.drain(2)
                    self.done.set()
                    return
                await self._pause(self._agent.until_next_frame())
            self._note_end(listening)
        finally:
            self._session, self._lost = None, self._clock.monotonic()
            listening.cancel()

    def _send_frame(self, session: Session) -> bool:
        """Send the state of this node; tell whether it was the last."""
        frame = self._agent.frame()
        session.send_frame(frame, eager=self._agent.until_next_frame() < SEND_EVERY)
        return frame.ended

    def _note_end(self, listening: asyncio.Task[None]) -> None:
        error = listening.exception() if listening.done() else None
        if isinstance(error, ConnectionResetError):
            self._hub_answered()
        elif isinstance(error, AlteredError):
            self._say_once(f"gave up a connection to the hub: {error}")

    async def _await_last_order(self, listening: asyncio.Task[None]) -> None:
        """The end itself may be what the hub has an order about."""
        await asyncio.wait({listening}, timeout=_LAST_ORDER_WITHIN)
        if listening.done():
            listening.exception()  # the hub has left; asyncio would complain that nobody looked

    async def _listen(self, session: Session) -> None:
        while True:
            message = await session.receive()
            if isinstance(message, wire.Lack):
                for part in session.packer.bodies(message.wanted):
                    session.send(wire.Parts((part,)))
                    await session.drain(10)
            else:
                self._handle(message)

    def _handle(self, message: wire.Message) -> None:
        match message:
            case wire.Heard(number) if number:  # 0 confirms no frame
                self._hub_answered()
                self.unreported = None
            case wire.Ask(requests):
                self._agent.collect(requests)
            case wire.Peers(peers):
                self.prober.know(peers)
            case wire.Say(text):
                say(text)
            case wire.News():
                self._agent.receive(message)
            case wire.Do(order):
                self._agent.obey(order)
            case wire.Lease(seconds):
                self._lease = seconds
            case wire.Answer(number, text) if number in self._open:
                if not self._open[number].done():
                    self._open[number].set_result(text)
            case _:
                pass

    async def _pause(self, seconds: float) -> None:
        """Wait, but not past the moment at which something happened."""
        began = self._clock.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.urgent.wait()
        self.urgent.clear()
        late = self._clock.monotonic() - began - seconds
        if late > _LATE and self._answered is not None:
            # It was this agent that did not run.
            self._answered += late

    # --- being cut off

    def _hub_answered(self) -> None:
        self._answered = self._clock.monotonic()

    def _silent_for(self) -> float:
        return 0.0 if self._answered is None else self._clock.monotonic() - self._answered

    def _is_cut_off(self) -> bool:
        if self._answered is None or not self._confirms:
            return self._cut_offs.is_open
        return self._silent_for() > CUT_OFF_AFTER

    def _record_cut_off(self) -> None:
        silent_for, begins = self._silent_for(), not self._cut_offs.is_open
        if self._lease and silent_for > self._lease:
            why = f"cut off from the hub for {silent_for:.0f} s: the others may continue without it"
            self._agent.leave(why)
        frame = self._agent.frame()
        entry = self._cut_offs.note(silent_for, frame.links, frame.ranks)
        if begins and entry is not None:
            say(f"the hub at {self._hub[0]} has been out of reach for {silent_for:.1f} s{entry}")

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            say(text)
