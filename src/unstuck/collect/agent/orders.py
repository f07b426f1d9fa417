"""What an agent does on the hub's order to the ranks of its own node, and to nobody else.

A process is touched only if the agent watches it itself under that rank and pid.
"""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path
from typing import Any

import msgspec

from unstuck.clock import SYSTEM, Clock
from unstuck.console import say
from unstuck.files import write_whole
from unstuck.model.order import Act, Order, Target
from unstuck.observe.node.process import connections
from unstuck.observe.node.ranks import RankWatcher

STOP_FILE = "stop.json"
"""In the live directory: `unstuck run` ends the launch command when it appears."""
_DELIVERED_AFTER = 0.15
"""An order takes this long to reach the ranks; only then are their sockets shut."""


class OrderHandler:
    """Obeys orders; without `may_act` it never does."""

    def __init__(
        self, live: Path, publish: Callable[[str, str], None], clock: Clock = SYSTEM
    ) -> None:
        """Prepare; `publish` sends a line to the ranks that subscribed to a topic."""
        self._live = live
        self._publish = publish
        self._clock = clock
        self._seen: set[int] = set()
        self.may_act = False

    def obey(
        self, order: Order, watchers: Collection[RankWatcher]
    ) -> Coroutine[Any, Any, None] | None:
        """Do it; return what is left to be done beside the agent's loop."""
        if not self.may_act:
            if self._is_first(order):
                say("started without --recover: it does not obey the hub's order")
            return None
        if order.act is Act.STOP:
            self.stop(order.code, order.summary, order.seconds)
            return None
        wanted = {*order.targets}
        mine = [one for one in watchers if one.alive and Target(one.rank, one.pid) in wanted]
        if order.act is Act.END:
            self._end(order, mine, {target.pid for target in wanted})
            return None
        here = {one.pid for one in watchers}
        return self._reach_into(order, mine, here) if self._is_first(order) else None

    def _is_first(self, order: Order) -> bool:
        """Tell whether an order of this number is new; the hub repeats its orders."""
        if order.number in self._seen:
            return False
        self._seen.add(order.number)
        return True

    def stop(self, code: int, why: str, grace: float = 0.0) -> bool:
        """Have `unstuck run` end the launch command with this code; the first request counts.

        For `grace` seconds it may end by itself. Returns whether this was the first request.
        """
        path = self._live / STOP_FILE
        if not self.may_act or path.exists():
            return False
        with contextlib.suppress(OSError):
            write_whole(path, msgspec.json.encode({"code": code, "why": why, "grace": grace}))
        return path.exists()

    def _end(self, order: Order, mine: list[RankWatcher], wanted: set[int]) -> None:
        for watcher in mine:
            if watcher.rank in order.culprits:
                write_error_file(watcher.error_file, order.summary, self._clock.time())
        for pid in [watcher.pid for watcher in mine] + [*self._without_page() & wanted]:
            end(pid)

    def _without_page(self) -> set[int]:
        """Return ranks of this node that have not yet got as far as having a page."""
        signs = [*self._live.glob("rank-*.born"), *self._live.glob("rank-*.problem")]
        return {int(sign.name.split(".")[1]) for sign in signs}

    async def _reach_into(self, order: Order, mine: list[RankWatcher], here: set[int]) -> None:
        """Send the ranks the order, then free them from their collectives."""
        for watcher in mine:
            line = {
                "order": order.act,
                "number": order.number,
                "pid": watcher.pid,
                "seconds": order.seconds,
                "verdict": order.verdict,
                "summary": order.summary,
            }
            self._publish("orders", json.dumps(line))
        await asyncio.sleep(_DELIVERED_AFTER)
        ports, hosts = {watcher.store_port for watcher in mine}, order.addresses
        for watcher in mine:
            await asyncio.to_thread(connections.shut_peers, watcher.pid, here, hosts, ports)


def end(pid: int) -> None:
    """Kill a rank and what it started, where it leads a process group of its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)


def write_error_file(path: str, summary: str, now: float) -> None:
    """Let torchrun print the verdict as the root cause; what the rank itself wrote stays."""
    if not path or Path(path).exists():
        return
    # A second ago: of several files torchrun takes the oldest for the root cause.
    extra = {"py_callstack": summary, "timestamp": str(int(now) - 1)}
    content = {"message": {"message": summary, "extraInfo": extra}}
    with contextlib.suppress(OSError):
        Path(path).write_text(json.dumps(content), encoding="utf-8")
