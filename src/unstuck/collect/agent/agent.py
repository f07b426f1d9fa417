"""The node agent: one process beside the ranks of a host. It watches.

It touches the ranks only on the hub's order, and only if it was started with `--obey`.

`unstuck run` starts it and writes to its standard input, one message a line: `stopping` (the
user asked for the end), `exit PID CODE` (the launched process ended), `ended` (the last message).
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path

from unstuck.clock import SYSTEM, Clock
from unstuck.collect import wire
from unstuck.collect.accepting import report_rarely
from unstuck.collect.agent.cut_off import CutOff, CutOffLog
from unstuck.collect.agent.local_ranks import LocalRanks
from unstuck.collect.agent.orders import OrderHandler
from unstuck.collect.agent.peer_events import PeerEvents
from unstuck.collect.agent.questions import QuestionServer
from unstuck.collect.agent.uplink import SEND_EVERY, Uplink
from unstuck.console import say
from unstuck.model.exits import Exit
from unstuck.model.frame import Frame
from unstuck.model.liveness import HUB_LOST_AFTER
from unstuck.model.order import Order

_LOOK_EVERY = 0.1
_SEND_EVERY_WHEN_EAGER = 0.25
_PRIORITY = -10
"""As for nice(1): lower is served first, and what a user starts has 0."""


class Agent:
    """Watches the ranks of one node and keeps the hub informed, as long as there is one."""

    def __init__(
        self,
        live: Path,
        node: str,
        host: str,
        hub: tuple[str, int],
        token: str,
        cut_offs: CutOffLog | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        self.node = node
        self.host = host
        self.nodes_wanted = 0
        self.stopping = False
        self.ended = False
        self.uplink = Uplink(self, hub, token, cut_offs, clock)
        self.ranks = LocalRanks(live, host, clock, self.uplink.urgent)
        self.collect = self.ranks.collect
        self._clock = clock
        self._questions = QuestionServer(live, self.uplink.ask, self.frame, clock)
        self.orders = OrderHandler(live, self._questions.publish, clock)
        self._peers = PeerEvents(clock)
        self._launcher_end: tuple[int, float] | None = None
        self._empty_since = clock.monotonic()
        self._number = 0

    async def run(self) -> None:
        """Watch until the job has ended and the hub knows it."""
        await self._questions.open()
        work = (self._watch(), self._listen_to_launcher(), self.uplink.talk(), self._judge_alone())
        tasks = [asyncio.create_task(one) for one in work]
        for task in tasks:
            task.add_done_callback(self._end_on_failure)
        await self.uplink.done.wait()
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        self.uplink.prober.close()
        self._questions.close(remove=self.ended)
        self.ranks.close(remove=self.ended)
        for failure in results:
            if isinstance(failure, Exception):
                raise failure

    def _end_on_failure(self, task: asyncio.Task[None]) -> None:
        """Half an agent would report an old state forever; `unstuck run` starts a whole one."""
        if not task.cancelled() and task.exception() is not None:
            self.uplink.done.set()

    async def _watch(self) -> None:
        while True:
            self.ranks.look()
            await asyncio.sleep(_LOOK_EVERY)

    # --- what the hub receives

    def until_next_frame(self) -> float:
        """Return how long the next frame may wait: less while something seems wrong."""
        eager = self.ranks.is_eager(self._clock.monotonic()) or self.uplink.misses_a_peer()
        return _SEND_EVERY_WHEN_EAGER if eager else SEND_EVERY

    def frame(self) -> Frame:
        """Return the whole state of this node."""
        self._number += 1
        now = self._clock.monotonic()
        ranks, pressure = self.ranks.report(now)
        if ranks:
            self._empty_since = now
        end, cut_off = self._launcher_end, self.uplink.unreported or CutOff()
        return Frame(
            node=self.node,
            host=self.host,
            number=self._number,
            sent_at=self._clock.time(),
            ranks=ranks,
            pressure=pressure,
            links=self.uplink.prober.links(),
            cut_off_for=cut_off.seconds,
            unheard=cut_off.unheard,
            heard=cut_off.heard,
            nodes_wanted=self.nodes_wanted,
            empty_for=round(now - self._empty_since, 3),
            launcher_exit=end[0] if end else None,
            launcher_gone_for=round(now - end[1], 3) if end else 0.0,
            stopping=self.stopping,
            ended=self.ended,
        )

    # --- what the ranks receive

    def receive(self, news: wire.News) -> None:
        """Pass on to the ranks what the hub sends to all nodes."""
        match news.topic:
            case "roster":
                self._peers.set_roster(news.text)
            case "paused":
                self.ranks.paused_until = float(news.text)
            case "peers":
                silent = json.loads(news.text)
                self._publish_peers(self._peers.from_hub(silent, alone=self._is_alone()))
            case _:
                self._questions.publish(news.topic, news.text)
                self._questions.hold(news.topic, news.text if news.holds else None)

    def _publish_peers(self, events: list[str]) -> None:
        for event in events:
            self._questions.publish("peers", event)
        if events:
            self._questions.hold("peers", self._peers.current())

    async def _judge_alone(self) -> None:
        """While there is no hub, report from here who falls silent and who is back."""
        while True:
            await asyncio.sleep(_SEND_EVERY_WHEN_EAGER)
            if not self._is_alone():
                self._publish_peers(self._peers.rejoin())
            elif not (self.stopping or self.ended):
                self._publish_peers(self._peers.judge_alone(self.frame()))

    def _is_alone(self) -> bool:
        return self.uplink.without_hub_for() > HUB_LOST_AFTER

    # --- what the hub orders

    @property
    def obeys(self) -> bool:
        """Tell whether the hub's orders are obeyed here."""
        return self.orders.may_act

    def obey(self, order: Order) -> None:
        """Do what the hub orders, if `unstuck run` was started with a policy that acts."""
        if not order.hosts or self.host in order.hosts:
            work = self.orders.obey(order, self.ranks.watchers)
            if work is not None:
                self.ranks.begin(work)

    def leave(self, why: str) -> None:
        """End this node's part of the job, unless its ranks train: the hub may have excluded it.

        Where only the connection to the hub is lost, training continues and is left alone.
        """
        if self.ranks.make_no_progress() and self.orders.stop(Exit.LEFT.value, why):
            say(f"this node leaves the job (exit code {Exit.LEFT.value}), {why}")

    # --- the launcher

    async def _listen_to_launcher(self) -> None:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            self.hear_launcher(line.decode().split())
        await self._outlive_launcher()

    def hear_launcher(self, words: list[str]) -> None:
        """Process one message of `unstuck run`."""
        match words:
            case ["stopping"]:
                self.stopping = True
            case ["exit", pid, code]:
                # The launched process is a rank itself, or what started the ranks.
                if not self.ranks.note_exit(int(pid), int(code)):
                    self._launcher_end = (int(code), self._clock.monotonic())
                self.ranks.look()
            case ["ended"]:
                self.ranks.look()
                self.ended = True
            case _:
                return
        self.uplink.urgent.set()

    async def _outlive_launcher(self) -> None:
        """`unstuck run` was killed: stay while ranks live, then leave."""
        while self.ranks.any_alive:  # noqa: ASYNC110
            await asyncio.sleep(1)
        self.ended = True
        self.uplink.urgent.set()


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
    # Ctrl-C belongs to the job; this process ends when the job has ended.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    token = os.environ.pop("UNSTUCK_TOKEN")
    _raise_priority()
    report_rarely("agent")
    asyncio.run(_run(options, token))


def _raise_priority() -> None:
    """Get a core at once when something happens, where that is allowed; it needs 1 % of one.

    Where all cores are busy, a death may otherwise be seen after the others were ended too.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, min(_PRIORITY, os.getpriority(os.PRIO_PROCESS, 0)))


async def _run(options: argparse.Namespace, token: str) -> None:
    host, _, port = options.hub.rpartition(":")
    cut_offs = CutOffLog(options.story)
    agent = Agent(options.live, options.node, options.host, (host, int(port)), token, cut_offs)
    agent.nodes_wanted = options.nodes
    agent.orders.may_act = options.obey
    await agent.run()


if __name__ == "__main__":
    main()
