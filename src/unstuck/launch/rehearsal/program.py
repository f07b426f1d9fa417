"""What every rank of a rehearsed launch runs in the place of the script.

    meet at the store -> each machine goes to each other one -> all-reduce, group by group

After each stage the rank writes down what it knows: whatever hangs then, that much is told. The
first rank also gathers what the others found.
"""

import contextlib
import importlib
import os
import platform
import socket
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from unstuck.launch.rehearsal import way
from unstuck.model.rehearsal import RankReport, ReduceResult

FOLDER = "UNSTUCK_REHEARSAL"
"""Variable that says where the reports of this machine's ranks go."""
ALL = "all.json"
UNTIL = "until"
"""File with the moment, by this machine's monotonic clock, at which nobody listens any more."""
LIMIT = 18.0
"""Seconds after which a rank gives up, whatever it waits for, if it was not told when."""
GATHER = 4.0
"""Seconds that the first rank then has to hear what the others found."""
_MEET_WITHIN = 8.0
_ROUND_WITHIN = 7.0
_REDUCE_WITHIN = 5
_MOST_PAIRS = 64
_ELEMENTS = 1 << 18
"""1 MB."""
_TRIES = 2


class Rank:
    """One rank on its way through the stages."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._folder = Path(os.environ[FOLDER])
        self._until = _until(self._folder, self._began + LIMIT + GATHER) - GATHER
        host = socket.gethostname()
        self.report = RankReport(
            rank=int(os.environ.get("RANK", "0")),
            world_size=int(os.environ.get("WORLD_SIZE", "1")),
            host=host,
            node=f"{os.environ.get('GROUP_RANK', '')}/{host}",
            versions=_versions(),
        )
        self._store: Any = None
        self._doing = "starting"
        self._done = threading.Event()

    def run(self) -> None:
        """Go through all stages within the limit; the process ends in any case."""
        self.write()
        threading.Thread(target=self._work, daemon=True).start()
        if not self._done.wait(self._left()):
            lasted = time.monotonic() - self._began
            self.report.problems.append(f"{self._doing}: gave up after {lasted:.0f} s")
        self.write()
        gathering = threading.Thread(target=self._gather, daemon=True)
        gathering.start()
        gathering.join(self._left() + GATHER)
        os._exit(0)  # a collective that hangs in a thread would keep the process

    def write(self) -> None:
        """Write down what is known so far, on this machine."""
        file = self._folder / f"rank-{self.report.rank}.json"
        with contextlib.suppress(OSError):
            file.with_suffix(".new").write_bytes(msgspec.json.encode(self.report))
            file.with_suffix(".new").replace(file)

    def _work(self) -> None:
        try:
            self._meet()
            answers = way.Answers()
            people = self._introduce(answers.port)
            self._go_to_all(people)
            self._reduce()
            self._reached("done")
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is what is looked for
            text = " ".join(str(error).split())[:300]
            self.report.problems.append(f"{self._doing}: {type(error).__name__}: {text}")
        self._done.set()

    def _reached(self, stage: str) -> None:
        self.report.stage = stage
        self.write()

    # --- stages

    def _meet(self) -> None:
        self._doing = "connecting to the store"
        rendezvous = importlib.import_module("torch.distributed.rendezvous").rendezvous
        within = timedelta(seconds=_MEET_WITHIN)
        self._kept = next(iter(rendezvous("env://", timeout=within)))
        self._store = _client()
        self._reached("store")

    def _introduce(self, port: int) -> dict[int, dict[str, Any]]:
        """Tell all others where this rank is, and wait for theirs."""
        self.report.address = self._address()
        own = {
            "host": self.report.host,
            "node": self.report.node,
            "address": self.report.address,
            "port": port,
        }
        self._doing = "waiting for the other ranks"
        self._set("here", own)
        found = self._all("here", _MEET_WITHIN)
        self.report.missing = [r for r in range(self.report.world_size) if r not in found]
        self._reached("met")
        return found

    def _go_to_all(self, people: dict[int, dict[str, Any]]) -> None:
        """Let the first rank of each machine go to those of the others, two at a time."""
        self._doing = "going to the other machines"
        leaders: dict[str, int] = {}
        for rank in sorted(people):
            leaders.setdefault(people[rank]["node"], rank)
        ranks = sorted(leaders.values())
        if self.report.rank in ranks and len(ranks) > 1:
            own = ranks.index(self.report.rank)
            for number, pairs in enumerate(way.rounds(len(ranks))[:_MOST_PAIRS]):
                for first, second in pairs:
                    if own in (first, second):
                        partner = ranks[second if own == first else first]
                        self._go_to(people[partner], full=own == first)
                self._wait_for_round(number, len(ranks))
        self.report.compute = _compute()
        self._reached("pairs")

    def _go_to(self, partner: dict[str, Any], *, full: bool) -> None:
        name, address = str(partner["host"]), str(partner["address"])
        found = way.measure(self.report.host, name, address, int(partner["port"]), full=full)
        self.report.pairs.append(found)
        self.write()

    def _wait_for_round(self, number: int, count: int) -> None:
        self._store.add(f"doctor/round/{number}", 1)
        _poll(lambda: self._store.add(f"doctor/round/{number}", 0) >= count, _ROUND_WITHIN)

    def _reduce(self) -> None:
        """Sum something in groups of two, four, eight … ranks, and in that of all."""
        dist = importlib.import_module("torch.distributed")
        torch = importlib.import_module("torch")
        cuda = torch.cuda.is_available() and dist.is_nccl_available()
        if cuda:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        within = timedelta(seconds=_REDUCE_WITHIN)
        size, rank = self.report.world_size, self.report.rank
        self._doing = "connecting all ranks (init_process_group)"
        dist.init_process_group("nccl" if cuda else "gloo", timeout=within)
        data = torch.ones(_ELEMENTS, device="cuda" if cuda else "cpu")
        finish = torch.cuda.synchronize if cuda else None
        for width in (*_widths(size), size):
            self._doing = f"all_reduce in groups of {width}"
            groups = [
                dist.new_group(list(range(first, min(first + width, size))), timeout=within)
                for first in range(0, size, width)
            ]
            self._reduce_in(groups[rank // width], width, data, finish)
        self._reached("reduce")

    def _reduce_in(
        self, group: Any, width: int, data: Any, finish: Callable[[], None] | None
    ) -> None:
        dist = importlib.import_module("torch.distributed")
        best = float("inf")
        for _ in range(_TRIES):
            began = time.monotonic()
            dist.all_reduce(data, group=group)
            if finish is not None:
                finish()
            best = min(best, time.monotonic() - began)
        self.report.reduces.append(ReduceResult(width, best))
        self.write()

    # --- the store

    def _set(self, name: str, value: Any) -> None:
        self._store.set(f"doctor/{name}/{self.report.rank}", msgspec.json.encode(value))

    def _all(self, name: str, within: float) -> dict[int, Any]:
        """Wait until every rank has set a value, or the time is over; return those there are."""
        keys = {rank: f"doctor/{name}/{rank}" for rank in range(self.report.world_size)}
        missing = dict(keys)

        def arrived() -> bool:
            for rank, key in list(missing.items()):
                if not self._store.check([key]):
                    return False
                del missing[rank]
            return True

        _poll(arrived, within)
        there = [rank for rank, key in keys.items() if self._store.check([key])]
        return {rank: msgspec.json.decode(self._store.get(keys[rank])) for rank in there}

    def _gather(self) -> None:
        # A connection of its own: what hangs may be in the middle of a call of the other one.
        self._store = _client()
        self._set("report", self.report)
        if self.report.rank != 0:
            # Whoever hosts the store must not leave before the first rank has read it.
            _poll(lambda: bool(self._store.check(["doctor/read"])), self._left() + GATHER)
            return
        found = self._all("report", self._left() + GATHER - 1.0)
        data = msgspec.json.encode([found[rank] for rank in sorted(found)])
        (self._folder / ALL).write_bytes(data)
        self._store.set("doctor/read", b"1")

    def _left(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def _address(self) -> str:
        """Return the address that gloo would give to the others."""
        if name := os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]:
            psutil = importlib.import_module("psutil")
            found = [a.address for a in psutil.net_if_addrs().get(name, ()) if a.family == 2]
            if found:
                return str(found[0])
            self.report.problems.append(f"GLOO_SOCKET_IFNAME={name}: no such interface here")
        try:
            return str(socket.getaddrinfo(self.report.host, None, socket.AF_INET)[0][4][0])
        except OSError as error:
            self.report.problems.append(f"{self.report.host} cannot be resolved: {error.strerror}")
        return _towards(os.environ.get("MASTER_ADDR", "127.0.0.1"))


def _client() -> Any:
    """Connect to the store once more, beside what torch does with its own connection."""
    store = importlib.import_module("torch.distributed").TCPStore
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return store(host, port, is_master=False, timeout=timedelta(seconds=3))


def _until(folder: Path, usual: float) -> float:
    with contextlib.suppress(OSError, ValueError):
        return float((folder / UNTIL).read_text())
    return usual


def _towards(host: str) -> str:
    """Return the address by which this machine reaches another one; nothing is sent."""
    with contextlib.suppress(OSError), socket.socket(type=socket.SOCK_DGRAM) as one:
        one.connect((host, 9))
        return str(one.getsockname()[0])
    return "127.0.0.1"


def _widths(size: int) -> list[int]:
    return [width for width in (2, 4, 8, 16, 32, 64) if width < size and size % width == 0]


def _compute() -> float:
    torch = importlib.import_module("torch")
    matrix, count = torch.ones(64, 64), 0
    until = time.monotonic() + 0.2
    while time.monotonic() < until:
        torch.mm(matrix, matrix)
        count += 1
    return count / 0.2


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("torch", "unstuck", "nvidia-nccl-cu12", "nvidia-nccl-cu13"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _poll(done: Callable[[], bool], within: float) -> bool:
    until = time.monotonic() + within
    while not (found := done()) and time.monotonic() < until:
        time.sleep(0.05)
    return found


if __name__ == "__main__":
    Rank().run()
