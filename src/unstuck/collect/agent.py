"""The node agent: one process beside the ranks of a host. It watches.

It touches the ranks only on the hub's order, and only if it was started with `--obey`.

It is started by `unstuck run`, which speaks to it over standard input, one word a line:
`stopping` (the user asked for the end), `exit PID CODE` (the launched process ended),
`ended` (nothing more will come).
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any

from unstuck.collect import answers, wire
from unstuck.collect.cutoff import Story
from unstuck.collect.door import Door
from unstuck.collect.hands import Hands
from unstuck.collect.rollcall import ALONE_AFTER, RollCall
from unstuck.collect.uplink import Uplink
from unstuck.console import say
from unstuck.model.evidence import EvidenceKind, EvidenceRequest
from unstuck.model.exits import Exit
from unstuck.model.frame import Frame
from unstuck.model.order import Order
from unstuck.model.rank import Process, RankState
from unstuck.observe.node import newborn, overdue, procfs
from unstuck.observe.node.pressure import PressureMeter
from unstuck.observe.node.ranks import RankWatcher

LOOK_EVERY = 0.1
SEND_EVERY = 1.0
SEND_EVERY_WHEN_STALLED = 0.25
EAGER_FOR = 3.0
"""After a rank came, failed or left, what that does to the others is told without delay too."""
STALLED = 1.0
STANDS = 5.0
"""A rank without progress for so long, and three times its usual, does not train any more."""
PRIORITY = -10
"""As for nice(1): lower comes first, and what a user starts has 0."""
LAST_WORDS_AFTER = (0.0, 0.03, 0.05)
"""Pauses before the recorders of the others are read when a rank has died: its launcher ends
them within a tenth of a second, and the last of them may only now come to the operation."""


class Agent:
    """Watches the ranks of one node and keeps the hub informed, as long as there is one."""

    def __init__(
        self,
        live: Path,
        node: str,
        host: str,
        hub: tuple[str, int],
        token: str,
        story: Story | None = None,
    ) -> None:
        self.live = live
        self.node = node
        self.host = host
        self.uplink = Uplink(self, hub, token, story)
        self.door = Door(live, self)
        self._roll = RollCall()
        self.hands = Hands(live, self.door)
        self.nodes_wanted = 0
        self.stopping = False
        self.ended = False
        self._launcher_end: tuple[int, float] | None = None
        self._empty_since = time.monotonic()
        self._watchers: dict[str, RankWatcher] = {}
        self._pressure = PressureMeter()
        self._phases: dict[int, str] = {}
        self._eager_until = 0.0
        self._paused_until = 0.0
        """Unix time until which no section of a rank is acted on in its place."""
        self._number = 0
        self._urgent = self.uplink.urgent
        self._reads_last_words = False
        self._evidence: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Watch until told that the job has ended and the hub has heard so."""
        await self.door.open()
        tasks = [
            asyncio.create_task(self._watch()),
            asyncio.create_task(self._listen_to_launcher()),
            asyncio.create_task(self.uplink.talk()),
            asyncio.create_task(self._judge_alone()),
        ]
        for task in tasks:
            task.add_done_callback(self._end_on_failure)
        await self.uplink.done.wait()
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        self.uplink.prober.close()
        self.door.close(remove=self.ended)
        for watcher in self._watchers.values():
            watcher.close(remove=self.ended)
        for failure in results:
            if isinstance(failure, Exception):
                raise failure

    def _end_on_failure(self, task: asyncio.Task[None]) -> None:
        """Half an agent would report an old state for ever; `unstuck run` starts a whole one."""
        if not task.cancelled() and task.exception() is not None:
            self.uplink.done.set()

    # --- watching

    async def _watch(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(LOOK_EVERY)

    def look(self) -> None:
        """Glance at every rank of this node; hurry a frame out when one came, failed or left."""
        now = time.monotonic()
        self._admit(now)
        phases = {
            watcher.pid: watcher.phase(now) + watcher.halted(now)
            for watcher in self._watchers.values()
        }
        if phases != self._phases:
            self._eager_until = now + EAGER_FOR
            self._urgent.set()
        self._phases = phases
        if time.time() < self._paused_until:
            return  # whoever looks into a rank now may well have stopped it
        for watcher in self._watchers.values():
            if late := watcher.late_sections(now):
                self._begin(self._act_on(watcher, late))

    def _admit(self, now: float) -> None:
        for page in self.live.glob("rank-*.page"):
            if page.name in self._watchers:
                continue
            try:
                watcher = RankWatcher(page, self.host, now)
            except (OSError, ValueError):
                continue
            self._drop_previous_attempts(watcher)
            self._watchers[page.name] = watcher
            if watcher.pidfd is not None:
                asyncio.get_running_loop().add_reader(watcher.pidfd, self._died, watcher)

    def _drop_previous_attempts(self, fresh: RankWatcher) -> None:
        """A rank that started again replaces the dead ones of its node."""
        if not any(old.rank == fresh.rank for old in self._watchers.values()):
            return
        for name, old in list(self._watchers.items()):
            if not old.alive:
                old.close(remove=True)
                del self._watchers[name]

    def _died(self, watcher: RankWatcher) -> None:
        if watcher.pidfd is not None:
            asyncio.get_running_loop().remove_reader(watcher.pidfd)
        now = time.monotonic()
        if procfs.exit_code(watcher.pid) != 0 and not self._reads_last_words:
            self._reads_last_words = True
            # Before anything else: its launcher may end the others within milliseconds.
            for other in self._watchers.values():
                if other.alive and other is not watcher:
                    other.ask_last_words()
            self._begin(self._read_last_words())
        watcher.note_death(now)
        self.look()
        self._urgent.set()

    def _unprobed(self) -> list[RankState]:
        """Ranks whose probe failed before it was whole: said to be unobserved, with the reason."""
        found: dict[int, RankState] = {}
        for problem in sorted(self.live.glob("rank-*.problem"), key=lambda p: p.stat().st_mtime):
            _, number, pid = problem.name.replace("-", ".").split(".")[:3]
            if number.isdigit():
                why = problem.read_text(errors="replace")
                process = Process(pid=int(pid))
                found[int(number)] = RankState(int(number), self.host, process, unobserved=why)
        return list(found.values())

    # --- evidence

    def collect(self, requests: Iterable[EvidenceRequest]) -> None:
        """Begin to collect what was asked for; it comes with the next frame."""
        self._begin(self._collect(requests))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._evidence.add(task)
        task.add_done_callback(self._evidence.discard)

    async def _read_last_words(self) -> None:
        """Read what the ranks that lived were in when one died, before or after their own end."""
        for pause in LAST_WORDS_AFTER:
            await asyncio.sleep(pause)
            answering = [one for one in self._watchers.values() if one.alive or one.was_asked]
            work = (asyncio.to_thread(watcher.read_last_words) for watcher in answering)
            await asyncio.gather(*work, return_exceptions=True)
            self._urgent.set()
        self._reads_last_words = False

    async def _act_on(self, watcher: RankWatcher, late: list[overdue.Late]) -> None:
        """Do in a rank's place what its script wants when the time of a section is over."""
        with contextlib.suppress(OSError):
            await asyncio.to_thread(watcher.take_stack)
        for one in late:
            say(overdue.words(watcher.rank, one, watcher.why_late()))
            if one.action in ("dump", "abort") and watcher.all_threads():
                say(f"the threads of rank {watcher.rank}:\n{watcher.all_threads().rstrip()}")
            if one.action == "abort":
                await self._abort(watcher, one)

    async def _abort(self, watcher: RankWatcher, late: overdue.Late) -> None:
        """End a rank; by SIGKILL where it does not follow SIGABRT."""
        watcher.send(signal.SIGABRT)
        await asyncio.sleep(overdue.KILL_AFTER)
        if watcher.alive and watcher.overdue.still(late):
            watcher.send(signal.SIGKILL)

    async def _collect(self, requests: Iterable[EvidenceRequest]) -> None:
        work = [
            asyncio.to_thread(
                watcher.read_recorder
                if request.kind is EvidenceKind.RECORDER
                else watcher.take_stack
            )
            for request in requests
            for watcher in self._watchers.values()
            if watcher.rank in request.ranks and watcher.alive
        ]
        await asyncio.gather(*work, return_exceptions=True)
        self.look()
        self._urgent.set()

    # --- what the hub hears

    def until_next_frame(self) -> float:
        """Say how long the next frame may wait: less while something seems wrong."""
        now = time.monotonic()
        stalled = any(w.stalled_for(now) > STALLED for w in self._watchers.values())
        hurry = stalled or now < self._eager_until or self.uplink.hurries()
        return SEND_EVERY_WHEN_STALLED if hurry else SEND_EVERY

    def frame(self) -> Frame:
        """Return the whole state of this node."""
        self._number += 1
        now = time.monotonic()
        unprobed = self._unprobed()
        failed = {state.process.pid for state in unprobed}
        seen = [w.look(now) for w in self._watchers.values() if w.pid not in failed]
        told, end = self.uplink.told, self._launcher_end
        known = {s.rank for s in (*seen, *unprobed) if s.process.gone_for is None}
        ranks = (*seen, *unprobed, *newborn.look(self.live, self.host, known))
        if ranks:
            self._empty_since = now
        return Frame(
            node=self.node,
            host=self.host,
            number=self._number,
            sent_at=time.time(),
            ranks=ranks,
            pressure=self._pressure.look(now, [state.process for state in seen]),
            links=self.uplink.links(),
            cut_off_for=told.seconds if told else 0.0,
            unheard=told.unheard if told else (),
            heard=told.heard if told else (),
            nodes_wanted=self.nodes_wanted,
            empty_for=round(now - self._empty_since, 3),
            launcher_exit=end[0] if end else None,
            launcher_gone_for=round(now - end[1], 3) if end else 0.0,
            stopping=self.stopping,
            ended=self.ended,
        )

    # --- what its ranks ask

    async def ask_hub(self, text: str, within: float) -> str | None:
        """Ask the hub; None when it does not answer in time."""
        return await self.uplink.ask(text, within)

    def own_ranks(self) -> tuple[RankState, ...]:
        """Return the ranks of this node as they are now."""
        return self.frame().ranks

    def own_peers(self) -> dict[str, Any]:
        """Say who is alive as far as this node itself can tell."""
        frame = self.frame()
        return answers.tell_own_peers(frame, time.time())

    def hear(self, news: wire.News) -> None:
        """Hand on to the ranks what the hub tells all nodes."""
        match news.topic:
            case "roster":
                self._roll.know(news.text)
            case "paused":
                self._paused_until = float(news.text)
            case "peers":
                self._call(self._roll.hear(json.loads(news.text), alone=self._is_alone()))
            case _:
                self.door.publish(news.topic, news.text)
                self.door.hold(news.topic, news.text if news.holds else None)

    def _call(self, events: list[str]) -> None:
        for event in events:
            self.door.publish("peers", event)
        if events:
            self.door.hold("peers", self._roll.held())

    async def _judge_alone(self) -> None:
        """While there is no hub, say from here who falls silent and who is back."""
        while True:
            await asyncio.sleep(SEND_EVERY_WHEN_STALLED)
            if not self._is_alone():
                self._call(self._roll.rejoin())
            elif not (self.stopping or self.ended):
                self._call(self._roll.judge_alone(self.frame()))

    def _is_alone(self) -> bool:
        return self.uplink.without_hub_for() > ALONE_AFTER

    # --- what the hub orders

    @property
    def obeys(self) -> bool:
        """Tell whether the hub's orders are obeyed here."""
        return self.hands.may_act

    def obey(self, order: Order) -> None:
        """Do what the hub orders, if `unstuck run` was started with a policy that acts."""
        if not order.hosts or self.host in order.hosts:
            work = self.hands.obey(order, self._watchers.values())
            if work is not None:
                self._begin(work)

    def leave(self, why: str) -> None:
        """End the part of this node, if it stands: the hub may have written it off.

        Where only the way to the hub is cut, training goes on and is left alone.
        """
        now = time.monotonic()
        states = [watcher.look(now) for watcher in self._watchers.values() if watcher.alive]
        if any(state.stalled_for < max(STANDS, 3 * state.pace.longest) for state in states):
            return
        if self.hands.stop(Exit.LEFT.value, why):
            say(f"this node leaves the job (exit code {Exit.LEFT.value}), {why}")

    # --- the launcher

    async def _listen_to_launcher(self) -> None:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            self._obey(line.decode().split())
        await self._outlive_launcher()

    def _obey(self, words: list[str]) -> None:
        match words:
            case ["stopping"]:
                self.stopping = True
            case ["exit", pid, code]:
                self._note_exit(int(pid), int(code), time.monotonic())
                self.look()
            case ["ended"]:
                self.look()
                self.ended = True
            case _:
                return
        self._urgent.set()

    def _note_exit(self, pid: int, code: int, now: float) -> None:
        """The launched process is a rank itself, or what started the ranks."""
        ranks = [watcher for watcher in self._watchers.values() if watcher.pid == pid]
        for watcher in ranks:
            watcher.note_death(now, code)
        if not ranks:
            self._launcher_end = (code, now)

    async def _outlive_launcher(self) -> None:
        """`unstuck run` is gone without a word (SIGKILL): stay while ranks live, then leave."""
        while any(watcher.alive for watcher in self._watchers.values()):  # noqa: ASYNC110
            await asyncio.sleep(1)
        self.ended = True
        self._urgent.set()


def main() -> None:
    """Run the agent of one node until its job has ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--live", type=Path, required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--hub", required=True)
    parser.add_argument("--story", type=Path)
    parser.add_argument("--nodes", type=int, default=0)
    parser.add_argument("--obey", action="store_true")
    options = parser.parse_args()
    host, _, port = options.hub.rpartition(":")
    # Ctrl-C belongs to the job; this process ends when the job has ended.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    token = os.environ.pop("UNSTUCK_TOKEN")
    _come_before_the_ranks()
    asyncio.run(_run(options, (host, int(port)), token))


def _come_before_the_ranks() -> None:
    """Take a core at once when something happens, where that is allowed; it needs 1 % of one.

    Where all cores are busy, a death may otherwise be seen after the others were ended too.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, min(PRIORITY, os.getpriority(os.PRIO_PROCESS, 0)))


async def _run(options: argparse.Namespace, hub: tuple[str, int], token: str) -> None:
    story = Story(options.story)
    agent = Agent(options.live, options.node, options.host, hub, token, story)
    agent.nodes_wanted = options.nodes
    agent.hands.may_act = options.obey
    await agent.run()


if __name__ == "__main__":
    main()
