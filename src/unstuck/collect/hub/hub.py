"""The hub: one per job. It receives the frames of all agents and asks `judge` what they mean."""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec import Raw, structs

from unstuck.clock import SYSTEM, Clock
from unstuck.collect import answers, wire
from unstuck.collect.compact import Library, Unpacker, read_node, read_ranks
from unstuck.collect.hub.admission import Admission
from unstuck.collect.hub.followers import FOLLOWER, Followers
from unstuck.collect.hub.inbox import Arrived, Inbox
from unstuck.collect.hub.membership import Membership
from unstuck.collect.hub.notes import Notes
from unstuck.collect.hub.tcp_acks import all_confirmed
from unstuck.collect.parts import Tables
from unstuck.collect.peer_probe import FEW, choose
from unstuck.collect.session import LASTING, MESSAGE, Session
from unstuck.console import say
from unstuck.model.frame import Frame
from unstuck.model.liveness import CHECK_KERNEL_AFTER, FRAME_OVERDUE
from unstuck.model.order import Order
from unstuck.model.rank import RankState
from unstuck.model.requests import EvidenceRequest
from unstuck.model.snapshot import Snapshot
from unstuck.observe.probe.link import FOR_READERS

JUDGE_EVERY = 0.25
_ASK_AGAIN_AFTER = 1.0
_FORGET_ASKED_AFTER = 60.0
_LAST_LOOK = 1.0
"""How long a job that ended badly is still judged: the first death needs time to show."""
_DESERTED_AFTER = 30.0
_LATE = 0.75
_CHECK_KERNEL_EVERY = 0.3
_PUBLISH_MANY_EVERY = 1.0
"""Finding the silent of 100,000 ranks takes some 30 ms, and frames arrive all the time."""
_SHORT_PASS = 0.005
PAUSES = 9
"""A longer pass is followed by a pause of this many times what it takes, while all is well."""
_PAUSES_WHEN_EAGER = 2
"""The same while some agent says that something is wrong there, or is not heard."""
_EAGER_FOR = 3.0
_LONGEST_QUESTION = 64 << 10
_NEWLY_SILENT = 60.0
_READ_AHEAD = 64 << 10
_READ_WITHIN = 10.0
"""Seconds that an agent may take to read an answer."""
_READ_AT_ONCE = 0.02
"""Seconds of reading frames after which others get their turn."""
_MOST_HELD = 4

Judge = Callable[[Snapshot], tuple[EvidenceRequest, ...]]
Ctl = Callable[[Any], dict[str, Any]]
Inform = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(eq=False)
class _Link:
    """A connected agent, and how to read what it sends."""

    hello: wire.Hello
    session: Session
    unpacker: Unpacker
    frames: int = 0
    held: list[Arrived] = field(default_factory=list[Arrived])
    """Frames that refer to something that was asked for."""


class Hub:
    """Accepts agents that know the token; keeps no state that a frame would not restore."""

    def __init__(self, token: str, judge: Judge, host: str = "", clock: Clock = SYSTEM) -> None:
        self._judge = judge
        self._clock = clock
        self._membership = Membership(host)
        self._peers: dict[str, wire.Peer] = {}
        self._named: dict[str, tuple[wire.Peer, ...]] = {}
        self._changed = False
        self._leaving: set[str] = set()
        self._kernel_checked: dict[str, float] = {}
        self._sessions: dict[str, Session] = {}
        self._admission = Admission(token, self._is_taken)
        self._library = Library()
        self._inbox = Inbox(clock.monotonic())
        self._late = False
        self._judged_at = 0.0
        self._pass_took = 0.0
        self._eager_at = 0.0
        self._asked: dict[EvidenceRequest, float] = {}
        self._news = asyncio.Event()
        self._arrived = asyncio.Event()
        self._launcher = os.getppid()
        self._not_deserted = 0.0
        self._holds: dict[str, wire.News] = {}
        self._notes = Notes()
        self.followers = Followers(clock)
        """Readers of the job, such as the live page."""
        self._judged: Snapshot | None = None
        self._published = 0.0
        self._liveness: tuple[str, str] = ("{}", "{}")
        self.lease = 0.0
        """After how many seconds without this hub an agent ends its ranks; 0: never."""
        self.describe: answers.Describe | None = None
        """Says what a rank does; set by whoever knows how to read its stack."""
        self.ctl: Ctl | None = None
        """Receives what a node sent as `{"ctl": ...}` and returns the answer."""
        self.inform: Inform | None = None
        """Answers what people and tools ask of the whole job: `FOR_READERS`."""

    # --- judging

    async def serve(self, listener: socket.socket) -> None:
        """Serve until all nodes have said that their part has ended."""
        server = await asyncio.start_server(self._agent, sock=listener, limit=_READ_AHEAD)
        self._not_deserted = self._clock.monotonic()
        reading = asyncio.create_task(self._keep_reading())
        try:
            while not self._membership.all_ended(self._clock.monotonic()) and not self._deserted():
                await self._round()
            last = self._clock.monotonic() + _LAST_LOOK * self._membership.ended_badly
            while self._clock.monotonic() < last:
                await self._round()
        finally:
            reading.cancel()
            server.close()

    def _deserted(self) -> bool:
        """Tell whether the launcher is gone and no agent is left: nobody would end this hub."""
        now = self._clock.monotonic()
        if self._sessions or os.getppid() == self._launcher:
            self._not_deserted = now
        return now - self._not_deserted > _DESERTED_AFTER

    async def _round(self) -> None:
        """Judge every quarter of a second, as silence is news too, and when news arrive."""
        began = self._clock.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(JUDGE_EVERY):
                await self._news.wait()
        now = self._clock.monotonic()
        self._introduce_peers(now)
        self._check_kernels(now)
        late, self._late = not self._late and now - began > JUDGE_EVERY + _LATE, False
        if late:
            self._late = True
            return  # this hub did not run: first receive what arrived meanwhile
        if (early := self._judge_again_at(now) - now) > 0:
            await asyncio.sleep(min(early, JUDGE_EVERY))
            return
        self._news.clear()
        self._judge_now(now)
        self._judged_at = self._clock.monotonic()
        self._pass_took = self._judged_at - now

    def _judge_now(self, now: float) -> None:
        for frame in self._inbox.take():
            self._hear(frame)
        self._judged = snapshot = self._membership.snapshot(now, self._clock.time())
        if snapshot.nodes:
            self._publish_liveness(snapshot, now)
            self._ask(self._judge(snapshot), now)
            self.followers.show(snapshot)

    def _judge_again_at(self, now: float) -> float:
        """Say when the next pass is due: passes over a large job may not take all of the time."""
        if now - self._eager_at < _EAGER_FOR:
            pause = _PAUSES_WHEN_EAGER * max(0.0, self._pass_took - _SHORT_PASS)
        else:
            pause = max(JUDGE_EVERY, PAUSES * self._pass_took)
        return self._judged_at + pause

    def _ask(self, requests: tuple[EvidenceRequest, ...], now: float) -> None:
        due = tuple(r for r in requests if now - self._asked.get(r, 0.0) > _ASK_AGAIN_AFTER)
        if due:
            self._asked = {r: t for r, t in self._asked.items() if now - t < _FORGET_ASKED_AFTER}
            self._asked.update(dict.fromkeys(due, now))
            self._send_all(wire.Ask(due))

    def _check_kernels(self, now: float) -> None:
        """See whether the kernel of a node that fell silent still acknowledges what is sent."""
        for node, silent_for in self._membership.silent(now, CHECK_KERNEL_AFTER).items():
            if silent_for < _NEWLY_SILENT:
                self._eager_at = now
            session, checked = self._sessions.get(node), self._kernel_checked.get(node, 0.0)
            if session is None or node not in self._peers or now - checked < _CHECK_KERNEL_EVERY:
                continue
            recent = checked > now - silent_for + CHECK_KERNEL_AFTER
            self._membership.note_kernel(node, answers=recent and all_confirmed(session.writer))
            session.send(wire.Heard(0))
            self._kernel_checked[node] = now

    # --- what nodes and ranks are sent

    def _send_all(self, message: wire.Message) -> None:
        body = wire.body(message)
        for session in self._sessions.values():
            session.send_body(body)

    def say(self, text: str, *, but: str) -> None:
        """Show one line to the people at every node, except those of host `but`."""
        for node, session in self._sessions.items():
            if not node.startswith(f"{but}/"):
                session.send(wire.Say(text))

    def publish(self, topic: str, text: str, *, holds: bool) -> None:
        """Send news to the ranks of all nodes; what `holds`, also to agents that join later."""
        news = wire.News(topic, text, holds)
        self._holds.pop(topic, None)
        if holds:
            self._holds[topic] = news
        self._send_all(news)
        self.followers.tell(news)

    def order(self, order: Order) -> None:
        """Send an order to all agents; those of other hosts than it names ignore it."""
        known = tuple(peer.address for peer in self._peers.values())
        self._send_all(wire.Do(structs.replace(order, addresses=known)))

    def _publish_liveness(self, snapshot: Snapshot, now: float) -> None:
        """Send all nodes who belongs to the job and who is silent, when that has changed."""
        if any(node.stopping or node.ended for node in snapshot.nodes):
            return  # whoever leaves now is expected to
        large = len(snapshot.nodes) > FEW
        if large and now - self._published < _PUBLISH_MANY_EVERY:
            return
        self._published = now
        silent = answers.silent_ranks(snapshot)
        # Not with the seconds, which always change.
        states = json.dumps({rank: one["state"] for rank, one in silent.items()})
        # In a larger job an agent probes its neighbours only, and could not judge the others.
        roster = json.dumps({} if large else answers.roster(snapshot))
        before, self._liveness = self._liveness, (roster, states)
        if roster != before[0]:
            self.publish("roster", roster, holds=True)
        if states != before[1]:
            self.publish("peers", json.dumps(silent), holds=True)

    def _answer(self, question: wire.Question) -> wire.Answer:
        """Answer whatever arrives; a question must not end the connection of its node."""
        try:
            asked = json.loads(question.text[:_LONGEST_QUESTION])
            if "ctl" in asked:
                found = self.ctl(asked["ctl"]) if self.ctl else {"error": "this hub takes no ctl"}
            elif "note" in asked:
                found = self._notes.handle(asked["note"])
            elif asked.get("ask") in FOR_READERS and self.inform:
                found = self.inform(asked)
            else:
                found = answers.answer(asked, self._current(), self.describe)
        except Exception as error:  # noqa: BLE001 - see above
            found = {"error": f"{type(error).__name__}: {error}"}
        return wire.Answer(question.number, json.dumps(found))

    def _current(self) -> Snapshot:
        """Return the job as it is; where many nodes may ask at once, as it was last judged."""
        if self._judged is not None and len(self._judged.nodes) > FEW:
            return self._judged
        return self._membership.snapshot(self._clock.monotonic(), self._clock.time())

    # --- connections

    def _is_taken(self, node: str) -> bool:
        """Tell whether the agent that has this name is there: nobody takes it over from it."""
        session = self._sessions.get(node)
        return session is not None and self._clock.monotonic() - session.heard_at < FRAME_OVERDUE

    async def _agent(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session, node = None, ""
        try:
            hello, session = await self._admission.admit(reader, writer)
            if hello.node.startswith(FOLLOWER):
                await self.followers.stay(session, self._holds.values())
                return
            node = hello.node
            self._join(hello, session)
            await self._converse(hello, session)
        except asyncio.CancelledError:
            pass  # the job has ended; Python 3.11 would print a traceback about it
        except ConnectionResetError:
            if session is not None and self._sessions.get(node) is session:
                # Closed by the other side. A host that is cut off closes nothing: it falls silent.
                self._membership.lose(node, self._clock.monotonic())
                self._news.set()
        except (OSError, TimeoutError):
            pass  # unreachable, or not an agent: silence will show
        finally:
            if session is not None and self._sessions.get(node) is session:
                del self._sessions[node]
                self._leave(node)
            writer.close()

    def _join(self, hello: wire.Hello, session: Session) -> None:
        if (old := self._sessions.get(hello.node)) is not None:
            old.abort()
        session.heard_at = self._clock.monotonic()
        self._sessions[hello.node] = session
        self._named.pop(hello.node, None)
        self._changed = True
        if hello.port:
            address = str(session.writer.get_extra_info("peername")[0])
            self._peers[hello.node] = wire.Peer(hello.node, hello.host, address, hello.port)
        for news in self._holds.values():
            session.send(news)
        if self.lease:
            session.send(wire.Lease(self.lease))

    async def _converse(self, hello: wire.Hello, session: Session) -> None:
        """Take in what an agent sends until it says that it leaves."""
        link = _Link(hello, session, Unpacker(self._library))
        while True:
            kind, body = await session.receive_body()
            session.heard_at = self._clock.monotonic()
            if kind != MESSAGE:
                self._note_frame(link, body, lasting=kind == LASTING)
                continue
            match wire.decode(body):
                case wire.Bye():
                    self._read(hello.node)
                    return
                case wire.Parts(parts, begins):
                    if wanted := link.unpacker.learn(parts, begins=begins):
                        session.send(wire.Lack(wanted))
                    self._pass_on(link)
                case wire.Question() as question:
                    self._read(hello.node)
                    session.send(self._answer(question))
                    await session.drain(_READ_WITHIN)
                case _:
                    pass

    # --- frames

    def _note_frame(self, link: "_Link", body: bytes, *, lasting: bool) -> None:
        link.frames += 1
        if link.hello.port:
            link.session.send(wire.Heard(link.frames))
        at = link.session.heard_at
        link.held.append(Arrived(link, body, link.unpacker.tables, at, lasting))
        self._pass_on(link)

    def _pass_on(self, link: "_Link") -> None:
        """Have the frames of a node read, once all that they refer to is here."""
        if link.unpacker.lacks:
            del link.held[:-_MOST_HELD]
            return
        for frame in link.held:
            self._inbox.put(link.hello.node, frame)
        link.held.clear()
        self._arrived.set()

    async def _keep_reading(self) -> None:
        """Read frames, with pauses in which newer ones may arrive and replace what waits."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            began = self._clock.monotonic()
            for frame in self._inbox.take():
                self._hear(frame)
                if self._clock.monotonic() - began > _READ_AT_ONCE:
                    await asyncio.sleep(0)
                    began = self._clock.monotonic()
            if complaint := self._inbox.complaint(began):
                say(complaint)

    def _read(self, node: str) -> None:
        """Read what has arrived from a node, as what follows may be about it."""
        for frame in self._inbox.take(node):
            self._hear(frame)

    def _hear(self, arrived: Arrived) -> None:
        link: _Link = arrived.link
        hello = link.hello
        if self._sessions.get(hello.node) is not link.session:
            return
        try:
            report = wire.decode_report(arrived.body)
            node = read_node(report.node, arrived.tables)
        except ConnectionError:
            link.session.abort()
            return
        frame = Frame(hello.node, hello.host, report.number, report.sent_at, **node)
        read = partial(self._read_ranks, link.session, report.ranks, arrived.tables)
        self._membership.hear(frame, arrived.at, read)
        if report.eager:
            self._eager_at = arrived.at
        self._news.set()

    def _read_ranks(self, session: Session, rows: Raw, tables: Tables) -> tuple[RankState, ...]:
        try:
            return read_ranks(rows, tables)
        except ConnectionError:
            session.abort()
            return ()

    # --- which agents probe each other

    def _introduce_peers(self, now: float) -> None:
        """Tell each agent whom to probe, when that has changed."""
        self._watch_leaving(now)
        if not self._changed:
            return
        self._changed = False
        named = choose(self._peers.values())
        for node, peers in named.items():
            if peers != self._named.get(node, ()) and node in self._sessions:
                self._sessions[node].send(wire.Peers(peers))
        self._named = named

    def _leave(self, node: str) -> None:
        """Have nobody probe it any more, except one that fell silent before and may return."""
        now = self._clock.monotonic()
        if node in self._membership.silent(now, CHECK_KERNEL_AFTER):
            return
        if self._membership.may_be_alive(node, now):
            self._leaving.add(node)
        else:
            self._forget(node)

    def _watch_leaving(self, now: float) -> None:
        """Peers can say whether a node lives without its connection only while they probe it."""
        for node in tuple(self._leaving):
            if node in self._sessions or not self._membership.may_be_alive(node, now):
                self._leaving.discard(node)
                if node not in self._sessions and self._membership.is_lost(node, now):
                    self._forget(node)

    def _forget(self, node: str) -> None:
        self._peers.pop(node, None)
        self._changed = True
