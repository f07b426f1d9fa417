"""Where the ranks of a node ask their agent: a unix socket with lines of JSON.

`observe/probe/link.py` is the other side and says what may be asked. The agent never waits
for a rank here: what is too long, too slow or too much is cut off.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from unstuck.clock import SYSTEM, Clock
from unstuck.collect import answers
from unstuck.console import say
from unstuck.model.frame import Frame
from unstuck.observe.probe.link import FOR_READERS, MOST_ANSWER, MOST_QUESTION, SOCKET

TOPICS = ("verdicts", "peers", "orders")
_MOST_CONNECTIONS = 1024
_FIRST_WITHIN = 5.0
_IDLE = 60.0
_MOST_UNREAD = 1 << 20
_SAME_FOR = 0.1
"""All ranks ask at the same moment when a collective times out: one answer for all of them."""
_HUB_WITHIN = 1.0

AskHub = Callable[[str, float], Awaitable[str | None]]
"""Sends a question to the hub and returns the answer; None when there is none in time."""


class QuestionServer:
    """Serves the ranks of one node. Whatever fails here is the asking rank's loss only."""

    def __init__(
        self, live: Path, ask_hub: AskHub, frame: Callable[[], Frame], clock: Clock = SYSTEM
    ) -> None:
        """Prepare; `frame` returns what this node itself sees."""
        self._path = live / SOCKET
        self._ask_hub = ask_hub
        self._frame = frame
        self._clock = clock
        self._server: asyncio.Server | None = None
        self._connections = 0
        self._subscribers: dict[str, set[asyncio.StreamWriter]] = {topic: set() for topic in TOPICS}
        self._holds: dict[str, str] = {}
        self._recent: dict[str, tuple[float, asyncio.Task[str]]] = {}

    async def open(self) -> None:
        """Begin to serve; where that is not possible the agent does without."""
        temporary = self._path.with_suffix(f".{os.getpid()}")
        try:
            self._server = await asyncio.start_unix_server(
                self._serve, temporary, limit=MOST_QUESTION, backlog=512
            )
            # Renamed, so that a rank finds the old socket or the new one, never none.
            temporary.replace(self._path)
        except (OSError, ValueError) as error:
            say(f"ranks cannot ask the agent: {str(error).lower()}")

    def close(self, *, remove: bool) -> None:
        """Stop serving; `remove` deletes the socket as well."""
        if self._server is None:
            return
        self._server.close()
        for writers in self._subscribers.values():
            for writer in list(writers):
                writer.close()
        if remove:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)

    def publish(self, topic: str, line: str) -> None:
        """Send a line to all subscribers."""
        for writer in list(self._subscribers.get(topic, ())):
            self._write(writer, line)

    def hold(self, topic: str, line: str | None) -> None:
        """Set the line that new subscribers receive first; None: none."""
        self._holds.pop(topic, None)
        if line is not None:
            self._holds[topic] = line

    @staticmethod
    def _write(writer: asyncio.StreamWriter, line: str) -> None:
        if writer.transport.get_write_buffer_size() > _MOST_UNREAD:
            writer.transport.abort()  # it does not read
        elif not writer.is_closing():
            writer.write(line.rstrip("\n").encode() + b"\n")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections <= _MOST_CONNECTIONS:
                await self._converse(reader, writer)
        except asyncio.CancelledError:
            pass  # the agent ends; Python 3.11 would print a traceback about it
        except (OSError, TimeoutError, ValueError):
            pass  # closed, too slow, or too long a line
        finally:
            self._connections -= 1
            for writers in self._subscribers.values():
                writers.discard(writer)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        within = _FIRST_WITHIN
        while True:
            async with asyncio.timeout(within):
                line = await reader.readline()
            if not line:
                return
            question = _parse(line)
            if question is not None and question.get("subscribe") in TOPICS:
                await self._subscribe(question["subscribe"], reader, writer)
                return
            self._write(writer, await self._answer(question))
            async with asyncio.timeout(_FIRST_WITHIN):
                await writer.drain()
            within = _IDLE

    async def _subscribe(
        self, topic: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._write(writer, json.dumps({"subscribed": topic}))
        if topic in self._holds:
            self._write(writer, self._holds[topic])
        self._subscribers[topic].add(writer)
        while await reader.read(1 << 12):
            pass

    async def _answer(self, question: dict[str, Any] | None) -> str:
        if question is None:
            return _error("a question is one JSON object on one line")
        if "ctl" in question or "note" in question:
            text = await self._ask_hub(json.dumps(question), _HUB_WITHIN)
            return text or _error("the hub does not answer")
        if question.get("ask") not in ("ranks", "peers", *FOR_READERS):
            return _error("ask ranks, peers or job, subscribe to verdicts or peers, or send ctl")
        return await self._shared(json.dumps(question, sort_keys=True))

    async def _shared(self, text: str) -> str:
        """Answer the same question once for all who ask it at the same moment."""
        now = self._clock.monotonic()
        self._recent = {key: one for key, one in self._recent.items() if now - one[0] < _SAME_FOR}
        if text not in self._recent:
            self._recent[text] = (now, asyncio.create_task(self._look_up(text)))
        return await asyncio.shield(self._recent[text][1])

    async def _look_up(self, text: str) -> str:
        found = await self._ask_hub(text, _HUB_WITHIN)
        if found is not None and len(found) < MOST_ANSWER:
            return found
        why = "the hub does not answer" if found is None else "the hub's answer is too long"
        question, frame, wall = json.loads(text), self._frame(), self._clock.time()
        if question["ask"] in FOR_READERS:
            return _error(why)
        if question["ask"] == "peers":
            own = answers.own_peers(frame, wall)
        else:
            own = answers.about_ranks(answers.choose(frame.ranks, question.get("ranks")), wall)
        return json.dumps({**own, "whole": False, "why": f"{why}: this is what one node sees"})


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None  # type: ignore[reportUnknownVariableType]


def _error(text: str) -> str:
    return json.dumps({"error": text})
