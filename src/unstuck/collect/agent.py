"""The node agent: one process beside the ranks of a host. It watches; it never touches.

It is started by `unstuck run`, which speaks to it over standard input, one word a line:
`stopping` (the user asked for the end), `exit PID CODE` (the launched process ended),
`ended` (nothing more will come).
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from unstuck.collect import wire
from unstuck.console import say
from unstuck.model.evidence import EvidenceKind, EvidenceRequest
from unstuck.model.frame import Frame
from unstuck.model.rank import Process, RankState
from unstuck.observe.node.ranks import RankWatcher

LOOK_EVERY = 0.1
SEND_EVERY = 1.0
SEND_EVERY_WHEN_STALLED = 0.25
EAGER_FOR = 3.0
"""After a rank came, failed or left, what that does to the others is told without delay too."""
STALLED = 1.0
_RETRY_LONGEST = 5.0


class Agent:
    """Watches the ranks of one node and keeps the hub informed, as long as there is one."""

    def __init__(self, live: Path, node: str, host: str, hub: tuple[str, int], token: str) -> None:
        self.live = live
        self.node = node
        self.host = host
        self.hub = hub
        self.token = token
        self.stopping = False
        self.ended = False
        self._watchers: dict[str, RankWatcher] = {}
        self._phases: dict[int, str] = {}
        self._eager_until = 0.0
        self._number = 0
        self._urgent = asyncio.Event()
        self._acknowledged = asyncio.Event()
        self._evidence: set[asyncio.Task[None]] = set()
        self._said: set[str] = set()

    async def run(self) -> None:
        """Watch until told that the job has ended and the hub has heard so."""
        tasks = [
            asyncio.create_task(self._watch()),
            asyncio.create_task(self._listen_to_launcher()),
            asyncio.create_task(self._talk()),
        ]
        for task in tasks:
            task.add_done_callback(self._end_on_failure)
        await self._acknowledged.wait()
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for watcher in self._watchers.values():
            watcher.close(remove=self.ended)
        for failure in results:
            if isinstance(failure, Exception):
                raise failure

    def _end_on_failure(self, task: asyncio.Task[None]) -> None:
        """Half an agent would report an old state for ever; `unstuck run` starts a whole one."""
        if not task.cancelled() and task.exception() is not None:
            self._acknowledged.set()

    # --- watching

    async def _watch(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(LOOK_EVERY)

    def look(self) -> None:
        """Glance at every rank of this node; hurry a frame out when one came, failed or left."""
        now = time.monotonic()
        self._admit(now)
        phases = {watcher.pid: watcher.phase(now) for watcher in self._watchers.values()}
        if phases != self._phases:
            self._eager_until = now + EAGER_FOR
            self._urgent.set()
        self._phases = phases

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
        watcher.note_death(time.monotonic())
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

    # --- the hub

    async def _talk(self) -> None:
        delay = 0.1
        while True:
            try:
                reader, writer = await self._meet()
            except PermissionError as error:
                self._say_once(str(error))
                delay = _RETRY_LONGEST
            except (OSError, TimeoutError):
                if delay >= _RETRY_LONGEST:
                    where = f"{self.hub[0]}:{self.hub[1]}"
                    self._say_once(f"no hub at {where} yet; the job runs on, unwatched")
                delay = min(_RETRY_LONGEST, delay * 2)
            else:
                with contextlib.suppress(OSError, TimeoutError):
                    await self._converse(reader, writer)
                writer.close()
                await asyncio.sleep(0.1)
                delay = 0.1
                continue
            if self.ended:
                self._acknowledged.set()
            await self._pause(delay)

    async def _meet(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection(*self.hub, limit=1 << 20)
        try:
            await introduce(reader, writer, self.token, self.node, self.host)
        except BaseException:
            writer.close()
            raise
        return reader, writer

    async def _pause(self, seconds: float) -> None:
        """Wait, but not past the moment at which something happened."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._urgent.wait()
        self._urgent.clear()

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            say(text)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listening = asyncio.create_task(self._listen_to_hub(reader))
        try:
            while not listening.done():
                frame = self.frame()
                writer.write(wire.encode(wire.Report(frame)))
                await asyncio.wait_for(writer.drain(), timeout=10)
                if frame.ended:
                    writer.write(wire.encode(wire.Bye()))
                    await asyncio.wait_for(writer.drain(), timeout=2)
                    self._acknowledged.set()
                    return
                await self._pause(self._until_next_frame())
        finally:
            listening.cancel()

    def _until_next_frame(self) -> float:
        now = time.monotonic()
        stalled = any(w.stalled_for(now) > STALLED for w in self._watchers.values())
        return SEND_EVERY_WHEN_STALLED if stalled or now < self._eager_until else SEND_EVERY

    def frame(self) -> Frame:
        """Return the whole state of this node."""
        self._number += 1
        now = time.monotonic()
        unprobed = self._unprobed()
        failed = {state.process.pid for state in unprobed}
        seen = (w.look(now) for w in self._watchers.values() if w.pid not in failed)
        return Frame(
            node=self.node,
            host=self.host,
            number=self._number,
            sent_at=time.time(),
            ranks=(*seen, *unprobed),
            stopping=self.stopping,
            ended=self.ended,
        )

    async def _listen_to_hub(self, reader: asyncio.StreamReader) -> None:
        while True:
            message = await wire.receive(reader)
            if isinstance(message, wire.Ask):
                task = asyncio.create_task(self._collect(message.requests))
                self._evidence.add(task)
                task.add_done_callback(self._evidence.discard)
            elif isinstance(message, wire.Say):
                say(message.text)

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
                for watcher in self._watchers.values():
                    if watcher.pid == int(pid):
                        watcher.note_death(time.monotonic(), int(code))
                self.look()
            case ["ended"]:
                self.look()
                self.ended = True
            case _:
                return
        self._urgent.set()

    async def _outlive_launcher(self) -> None:
        """`unstuck run` is gone without a word (SIGKILL): stay while ranks live, then leave."""
        while any(watcher.alive for watcher in self._watchers.values()):  # noqa: ASYNC110
            await asyncio.sleep(1)
        self.ended = True
        self._urgent.set()


async def introduce(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    token: str,
    node: str,
    host: str,
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
    writer.write(wire.encode(wire.Hello(node, host, mine, answer)))
    reply = await wire.receive(reader, within=5)
    if isinstance(reply, wire.Refused):
        raise PermissionError(f"the hub refused this node: {reply.reason}")
    expected = wire.proof(token, "hub", challenge.nonce, mine, node)
    if not isinstance(reply, wire.Welcome) or not wire.same(reply.proof, expected):
        raise PermissionError("the hub could not prove that it has this job's token")


def main() -> None:
    """Run the agent of one node until its job has ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--live", type=Path, required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--hub", required=True)
    options = parser.parse_args()
    host, _, port = options.hub.rpartition(":")
    # Ctrl-C belongs to the job; this process ends when the job has ended.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    token = os.environ.pop("UNSTUCK_TOKEN")
    agent = Agent(options.live, options.node, options.host, (host, int(port)), token)
    asyncio.run(agent.run())


if __name__ == "__main__":
    main()
