"""The hub: one per job. It receives the frames of all agents and asks `judge` what they mean."""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Callable
from typing import Any

from msgspec import structs

from unstuck.clock import SYSTEM, Clock
from unstuck.collect import answers, wire
from unstuck.collect.hub.membership import Membership
from unstuck.collect.hub.notes import Notes
from unstuck.collect.hub.tcp_acks import all_confirmed
from unstuck.collect.peer_probe import FEW, choose
from unstuck.model.liveness import CHECK_KERNEL_AFTER
from unstuck.model.order import Order
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

Judge = Callable[[Snapshot], tuple[EvidenceRequest, ...]]
Ctl = Callable[[Any], dict[str, Any]]
Inform = Callable[[dict[str, Any]], dict[str, Any]]


class Hub:
    """Accepts agents that know the token; keeps no state that a frame would not restore."""

    def __init__(self, token: str, judge: Judge, host: str = "", clock: Clock = SYSTEM) -> None:
        self._token = token
        self._judge = judge
        self._clock = clock
        self._membership = Membership(host)
        self._peers: dict[str, wire.Peer] = {}
        self._named: dict[str, tuple[wire.Peer, ...]] = {}
        self._changed = False
        self._leaving: set[str] = set()
        self._kernel_checked: dict[str, float] = {}
        self._writers: dict[str, asyncio.StreamWriter] = {}
        self._asked: dict[EvidenceRequest, float] = {}
        self._news = asyncio.Event()
        self._launcher = os.getppid()
        self._not_deserted = 0.0
        self._holds: dict[str, wire.News] = {}
        self._notes = Notes()
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
        server = await asyncio.start_server(self._agent, sock=listener, limit=1 << 20)
        self._not_deserted = self._clock.monotonic()
        try:
            while not self._membership.all_ended(self._clock.monotonic()) and not self._deserted():
                await self._round()
            last = self._clock.monotonic() + _LAST_LOOK * self._membership.ended_badly
            while self._clock.monotonic() < last:
                await self._round()
        finally:
            server.close()

    def _deserted(self) -> bool:
        """Tell whether the launcher is gone and no agent is left: nobody would end this hub."""
        now = self._clock.monotonic()
        if self._writers or os.getppid() == self._launcher:
            self._not_deserted = now
        return now - self._not_deserted > _DESERTED_AFTER

    async def _round(self) -> None:
        """Judge when a frame arrived, and every quarter of a second: silence is news too."""
        began = self._clock.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(JUDGE_EVERY):
                await self._news.wait()
        self._news.clear()
        now = self._clock.monotonic()
        self._introduce_peers(now)
        self._check_kernels(now)
        if now - began > JUDGE_EVERY + _LATE:
            return  # this hub did not run: first receive what arrived meanwhile
        self._judged = snapshot = self._membership.snapshot(now, self._clock.time())
        if snapshot.nodes:
            self._publish_liveness(snapshot, now)
            self._ask(self._judge(snapshot), now)

    def _ask(self, requests: tuple[EvidenceRequest, ...], now: float) -> None:
        due = tuple(r for r in requests if now - self._asked.get(r, 0.0) > _ASK_AGAIN_AFTER)
        if due:
            self._asked = {r: t for r, t in self._asked.items() if now - t < _FORGET_ASKED_AFTER}
            self._asked.update(dict.fromkeys(due, now))
            self._send_all(wire.Ask(due))

    def _check_kernels(self, now: float) -> None:
        """See whether the kernel of a node that fell silent still acknowledges what is sent."""
        for node, silent_for in self._membership.silent(now, CHECK_KERNEL_AFTER).items():
            writer, checked = self._writers.get(node), self._kernel_checked.get(node, 0.0)
            if writer is None or node not in self._peers or now - checked < _CHECK_KERNEL_EVERY:
                continue
            recent = checked > now - silent_for + CHECK_KERNEL_AFTER
            self._membership.note_kernel(node, answers=recent and all_confirmed(writer))
            writer.write(wire.encode(wire.Heard(0)))
            self._kernel_checked[node] = now

    # --- what nodes and ranks are sent

    def _send_all(self, message: wire.Message) -> None:
        encoded = wire.encode(message)
        for writer in self._writers.values():
            writer.write(encoded)

    def say(self, text: str, *, but: str) -> None:
        """Show one line to the people at every node, except those of host `but`."""
        for node, writer in self._writers.items():
            if not node.startswith(f"{but}/"):
                writer.write(wire.encode(wire.Say(text)))

    def publish(self, topic: str, text: str, *, holds: bool) -> None:
        """Send news to the ranks of all nodes; what `holds`, also to agents that join later."""
        news = wire.News(topic, text, holds)
        self._holds.pop(topic, None)
        if holds:
            self._holds[topic] = news
        self._send_all(news)

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
            asked = json.loads(question.text)
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

    async def _agent(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        node = ""
        try:
            hello = await self._admit(reader, writer)
            node = hello.node
            self._join(hello, writer)
            while not isinstance(message := await wire.receive(reader), wire.Bye):
                if isinstance(message, wire.Report) and message.frame.node == node:
                    self._membership.hear(message.frame, self._clock.monotonic())
                    if hello.port:
                        writer.write(wire.encode(wire.Heard(message.frame.number)))
                    self._news.set()
                elif isinstance(message, wire.Question):
                    writer.write(wire.encode(self._answer(message)))
        except asyncio.CancelledError:
            pass  # the job has ended; Python 3.11 would print a traceback about it
        except ConnectionResetError:
            self._lost(node, writer)
        except (OSError, TimeoutError):
            pass  # unreachable, or not an agent: silence will show
        finally:
            if self._writers.get(node) is writer:
                del self._writers[node]
                self._leave(node)
            writer.close()

    async def _admit(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> wire.Hello:
        mine = wire.nonce()
        writer.write(wire.encode(wire.Challenge(mine)))
        hello = await wire.receive(reader, within=5)
        if not isinstance(hello, wire.Hello):
            raise ConnectionError("not an unstuck agent")
        expected = wire.proof(self._token, "agent", mine, hello.nonce, hello.node)
        reason = ""
        if hello.protocol != wire.PROTOCOL:
            reason = "another version of unstuck: install the same one on every node"
        elif not wire.same(hello.proof, expected):
            reason = "wrong token: set the same UNSTUCK_TOKEN on every node"
        if reason:
            writer.write(wire.encode(wire.Refused(reason)))
            await writer.drain()
            raise ConnectionError(reason)
        answer = wire.proof(self._token, "hub", mine, hello.nonce, hello.node)
        writer.write(wire.encode(wire.Welcome(answer)))
        return hello

    def _join(self, hello: wire.Hello, writer: asyncio.StreamWriter) -> None:
        self._writers[hello.node] = writer
        self._named.pop(hello.node, None)
        self._changed = True
        if hello.port:
            address = str(writer.get_extra_info("peername")[0])
            self._peers[hello.node] = wire.Peer(hello.node, hello.host, address, hello.port)
        for news in self._holds.values():
            writer.write(wire.encode(news))
        if self.lease:
            writer.write(wire.encode(wire.Lease(self.lease)))

    def _lost(self, node: str, writer: asyncio.StreamWriter) -> None:
        """Closed by the other side. A host that is cut off closes nothing: it falls silent."""
        if node and self._writers.get(node) is writer:
            self._membership.lose(node, self._clock.monotonic())
            self._news.set()

    # --- which agents probe each other

    def _introduce_peers(self, now: float) -> None:
        """Tell each agent whom to probe, when that has changed."""
        self._watch_leaving(now)
        if not self._changed:
            return
        self._changed = False
        named = choose(self._peers.values())
        for node, peers in named.items():
            if peers != self._named.get(node, ()) and node in self._writers:
                self._writers[node].write(wire.encode(wire.Peers(peers)))
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
            if node in self._writers or not self._membership.may_be_alive(node, now):
                self._leaving.discard(node)
                if node not in self._writers and self._membership.is_lost(node, now):
                    self._forget(node)

    def _forget(self, node: str) -> None:
        self._peers.pop(node, None)
        self._changed = True
