"""The hub: one per job. It takes frames in and asks `judge` what they mean."""

import asyncio
import contextlib
import json
import os
import socket
import time
from collections.abc import Callable
from typing import Any

from msgspec import structs

from unstuck.collect import answers, wire
from unstuck.collect.acks import all_confirmed
from unstuck.collect.membership import Membership
from unstuck.collect.notebook import Notebook
from unstuck.collect.peers import FEW, choose
from unstuck.model.evidence import EvidenceRequest
from unstuck.model.order import Order
from unstuck.model.snapshot import Snapshot

JUDGE_EVERY = 0.25
_ASK_AGAIN_AFTER = 1.0
_LAST_LOOK = 1.0
"""How long a job that ended badly is still judged: the first death needs time to show."""

_DESERTED_AFTER = 30.0
_LATE = 0.75
_SILENT = 1.25
_PRESENCE_EVERY = 0.3
_ROLL_OF_MANY_EVERY = 1.0
"""In a large job the roll takes some 30 ms (100,000 ranks), and frames come all the time."""

Judge = Callable[[Snapshot], tuple[EvidenceRequest, ...]]
Ctl = Callable[[Any], dict[str, Any]]


class Hub:
    """Accepts agents that know the token; keeps no state that a frame would not restore."""

    def __init__(self, token: str, judge: Judge, host: str = "") -> None:
        self._token = token
        self._judge = judge
        self._membership = Membership(host)
        self._peers: dict[str, wire.Peer] = {}
        self._named: dict[str, tuple[wire.Peer, ...]] = {}
        self._changed = False
        self._leaving: set[str] = set()
        self._knocked: dict[str, float] = {}
        self._writers: dict[str, asyncio.StreamWriter] = {}
        self._asked: dict[EvidenceRequest, float] = {}
        self._news = asyncio.Event()
        self._launcher = os.getppid()
        self._company = 0.0
        self._holds: dict[str, wire.News] = {}
        self._notebook = Notebook()
        self._judged: Snapshot | None = None
        self._rolled = 0.0
        self._roll: tuple[str, str] = ("{}", "{}")
        self.lease = 0.0
        """After how many seconds without this hub an agent ends its ranks; 0: never."""
        self.describe: answers.Describe | None = None
        """Says what a rank does; set by whoever knows how to read its stack."""
        self.ctl: Ctl | None = None
        """Takes what came as `{"ctl": ...}` from a node and returns the answer."""

    async def serve(self, listener: socket.socket) -> None:
        """Serve until all nodes have said that their part has ended."""
        server = await asyncio.start_server(self._agent, sock=listener, limit=1 << 20)
        self._company = time.monotonic()
        try:
            while not self._membership.all_ended(time.monotonic()) and not self._deserted():
                await self._round()
            last = time.monotonic() + _LAST_LOOK * self._membership.ended_badly
            while time.monotonic() < last:
                await self._round()
        finally:
            server.close()

    def _deserted(self) -> bool:
        """Tell whether the launcher is gone and no agent is left: nobody would end this hub."""
        now = time.monotonic()
        if self._writers or os.getppid() == self._launcher:
            self._company = now
        return now - self._company > _DESERTED_AFTER

    async def _round(self) -> None:
        """Judge when news came, and at least every quarter of a second: silence is news too."""
        began = time.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(JUDGE_EVERY):
                await self._news.wait()
        self._news.clear()
        self._introduce_peers()
        self._knock(time.monotonic())
        if time.monotonic() - began > JUDGE_EVERY + _LATE:
            return  # this hub did not run: first take in what came meanwhile
        snapshot = self._membership.snapshot(time.monotonic(), time.time())
        self._judged = snapshot
        if snapshot.nodes:
            self._call_roll(snapshot)
            self._ask(self._judge(snapshot))

    def say(self, text: str, *, but: str) -> None:
        """Tell one line to the people at every node, except those of host `but`."""
        for node, writer in self._writers.items():
            if not node.startswith(f"{but}/"):
                writer.write(wire.encode(wire.Say(text)))

    def _call_roll(self, snapshot: Snapshot) -> None:
        """Tell all nodes who belongs to the job and who is silent, when that has changed."""
        if any(node.stopping or node.ended for node in snapshot.nodes):
            return  # whoever leaves now is meant to
        now, large = time.monotonic(), len(snapshot.nodes) > FEW
        if large and now - self._rolled < _ROLL_OF_MANY_EVERY:
            return
        self._rolled = now
        silent = answers.silent_ranks(snapshot)
        # Not with the seconds, which always change.
        states = json.dumps({rank: one["state"] for rank, one in silent.items()})
        # In a larger job an agent asks its neighbours only, and would not know the others anyway.
        roster = json.dumps({} if large else answers.roster(snapshot))
        before, self._roll = self._roll, (roster, states)
        if roster != before[0]:
            self.publish("roster", roster, holds=True)
        if states != before[1]:
            self.publish("peers", json.dumps(silent), holds=True)

    def publish(self, topic: str, text: str, *, holds: bool) -> None:
        """Tell the ranks of all nodes what happened; what `holds`, also agents that join later."""
        news = wire.News(topic, text, holds)
        if holds:
            self._holds[topic] = news
        else:
            self._holds.pop(topic, None)
        for writer in self._writers.values():
            writer.write(wire.encode(news))

    def order(self, order: Order) -> None:
        """Tell all agents to do something; those of other hosts than it names ignore it."""
        known = tuple(peer.address for peer in self._peers.values())
        message = wire.encode(wire.Do(structs.replace(order, addresses=known)))
        for writer in self._writers.values():
            writer.write(message)

    def _answer(self, question: wire.Question) -> wire.Answer:
        """Answer whatever comes; a question must not end the connection of its node."""
        try:
            asked = json.loads(question.text)
            if "ctl" in asked:
                told = self.ctl(asked["ctl"]) if self.ctl else {"error": "this hub takes no ctl"}
            elif "note" in asked:
                told = self._notebook.do(asked["note"])
            else:
                told = answers.answer(asked, self._picture(), self.describe)
        except Exception as error:  # noqa: BLE001 - see above
            told = {"error": f"{type(error).__name__}: {error}"}
        return wire.Answer(question.number, json.dumps(told))

    def _picture(self) -> Snapshot:
        """The job as it is; where many nodes may ask at the same moment, as it was last judged."""
        if self._judged is not None and len(self._judged.nodes) > FEW:
            return self._judged
        return self._membership.snapshot(time.monotonic(), time.time())

    def _introduce_peers(self) -> None:
        """Tell each agent whom to ask directly, when that has changed."""
        self._watch_leaving(time.monotonic())
        if not self._changed:
            return
        self._changed = False
        named = choose(self._peers.values())
        for node, peers in named.items():
            if peers != self._named.get(node, ()) and node in self._writers:
                self._writers[node].write(wire.encode(wire.Peers(peers)))
        self._named = named

    def _knock(self, now: float) -> None:
        """See whether the kernel of a node that fell silent still confirms what is sent to it."""
        for node, silent_for in self._membership.silent(now, _SILENT).items():
            writer, knocked = self._writers.get(node), self._knocked.get(node, 0.0)
            if writer is None or node not in self._peers or now - knocked < _PRESENCE_EVERY:
                continue
            recent = knocked > now - silent_for + _SILENT
            self._membership.note_kernel(node, answers=recent and all_confirmed(writer))
            writer.write(wire.encode(wire.Heard(0)))
            self._knocked[node] = now

    def _ask(self, requests: tuple[EvidenceRequest, ...]) -> None:
        now = time.monotonic()
        due = tuple(r for r in requests if now - self._asked.get(r, 0.0) > _ASK_AGAIN_AFTER)
        if not due:
            return
        self._asked = {r: t for r, t in self._asked.items() if now - t < 60}
        self._asked.update(dict.fromkeys(due, now))
        for writer in self._writers.values():
            writer.write(wire.encode(wire.Ask(due)))

    async def _agent(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        node = ""
        try:
            hello = await self._admit(reader, writer)
            node = hello.node
            self._join(hello, writer)
            while not isinstance(message := await wire.receive(reader), wire.Bye):
                if isinstance(message, wire.Report) and message.frame.node == node:
                    self._membership.hear(message.frame, time.monotonic())
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

    def _leave(self, node: str) -> None:
        """Name it to nobody any more; one that fell silent before may come back, and is missed."""
        now = time.monotonic()
        if node in self._membership.silent(now, _SILENT):
            return
        if self._membership.may_be_alive(node, now):
            self._leaving.add(node)
        else:
            self._forget(node)

    def _watch_leaving(self, now: float) -> None:
        """Whether a node lives without its connection, its peers can say only while they ask it."""
        for node in tuple(self._leaving):
            if node in self._writers or not self._membership.may_be_alive(node, now):
                self._leaving.discard(node)
                if node not in self._writers and self._membership.is_lost(node, now):
                    self._forget(node)

    def _forget(self, node: str) -> None:
        self._peers.pop(node, None)
        self._changed = True

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
            self._membership.lose(node, time.monotonic())
            self._news.set()

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
