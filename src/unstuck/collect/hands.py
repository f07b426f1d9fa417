"""What an agent does on the hub's order to the ranks of its own node, and to nobody else.

A process is touched only if the agent watches it itself under that rank and pid.
"""

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Collection, Coroutine
from pathlib import Path
from typing import Any

import msgspec

from unstuck.collect.door import Door
from unstuck.console import say
from unstuck.model.order import Act, Order, Target
from unstuck.observe.node import sockets
from unstuck.observe.node.ranks import RankWatcher

STOP_FILE = "stop.json"
"""In the live directory: `unstuck run` ends the launch command when it appears."""
_HEARD_AFTER = 0.15
"""So long an order takes to the ranks; only then their sockets are shut."""


class Hands:
    """Obeys orders; without `may_act` it never does."""

    def __init__(self, live: Path, door: Door) -> None:
        self._live = live
        self._door = door
        self._done: set[int] = set()
        self.may_act = False

    def obey(
        self, order: Order, watchers: Collection[RankWatcher]
    ) -> Coroutine[Any, Any, None] | None:
        """Do it; return what is left to be done beside the agent's loop."""
        if not self.may_act:
            self._say_once(order, "started without --recover: it does not obey the hub's order")
            return None
        if order.act is Act.STOP:
            self.stop(order.code, order.summary, order.seconds)
            return None
        wanted = {*order.targets}
        mine = [one for one in watchers if one.alive and Target(one.rank, one.pid) in wanted]
        if order.act is Act.END:
            self._end(order, mine, {target.pid for target in wanted})
            return None
        if order.number in self._done:
            return None
        self._done.add(order.number)
        return self._reach_in(order, mine, {one.pid for one in watchers})

    def stop(self, code: int, why: str, grace: float = 0.0) -> bool:
        """Have `unstuck run` end the launch command with this code; the first word counts.

        For `grace` seconds it may end by itself. Returns whether this was the first word.
        """
        path = self._live / STOP_FILE
        if not self.may_act or path.exists():
            return False
        temporary = path.with_suffix(".new")
        with contextlib.suppress(OSError):
            temporary.write_bytes(msgspec.json.encode({"code": code, "why": why, "grace": grace}))
            temporary.replace(path)
        return path.exists()

    def _end(self, order: Order, mine: list[RankWatcher], wanted: set[int]) -> None:
        for watcher in mine:
            if watcher.rank in order.culprits:
                write_error_file(watcher.error_file, order.summary)
        for watcher in mine:
            end(watcher.pid)
        for pid in self._without_page() & wanted:
            end(pid)

    def _without_page(self) -> set[int]:
        """Ranks of this node that have not got so far as to have a page."""
        signs = [*self._live.glob("rank-*.born"), *self._live.glob("rank-*.problem")]
        return {int(sign.name.split(".")[1]) for sign in signs}

    async def _reach_in(self, order: Order, mine: list[RankWatcher], here: set[int]) -> None:
        """Tell the ranks, then free them from their collectives."""
        for watcher in mine:
            line = {
                "order": order.act,
                "number": order.number,
                "pid": watcher.pid,
                "seconds": order.seconds,
                "verdict": order.verdict,
                "summary": order.summary,
            }
            self._door.publish("orders", json.dumps(line))
        await asyncio.sleep(_HEARD_AFTER)
        ports, hosts = {watcher.store_port for watcher in mine}, order.addresses
        for watcher in mine:
            await asyncio.to_thread(sockets.shut_peers, watcher.pid, here, hosts, ports)

    def _say_once(self, order: Order, text: str) -> None:
        if order.number not in self._done:
            self._done.add(order.number)
            say(text)


def end(pid: int) -> None:
    """Kill a rank and what it started, where it leads a process group of its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)


def write_error_file(path: str, summary: str) -> None:
    """Let torchrun print the verdict as the root cause; what the rank itself wrote stays."""
    if not path or Path(path).exists():
        return
    message = {
        "message": summary,
        "extraInfo": {"py_callstack": summary, "timestamp": str(int(time.time()) - 1)},
    }
    with contextlib.suppress(OSError):
        Path(path).write_text(json.dumps({"message": message}), encoding="utf-8")
