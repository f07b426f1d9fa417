"""Two ranks of a real gloo job under the probe."""

import socket
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from children import RANK, Child, rank_env, until
from unstuck.observe.probe.page import Page, PageReader


class Pair(NamedTuple):
    """Two ranks and their live directory."""

    live: Path
    ranks: tuple[Child, Child]
    phase_before: str
    """What the page of rank 0 said before the process group was there."""

    def both(self, line: str) -> list[object]:
        """Let both ranks do the same."""
        for rank in self.ranks:
            rank.tell(line)
        return [rank.answer() for rank in self.ranks]

    def file(self, rank: int, ending: str = "page") -> Path:
        return self.live / f"rank-{rank}.{self.ranks[rank].pid}.{ending}"

    def page(self, rank: int) -> Page:
        reader = PageReader(str(self.file(rank)))
        try:
            until(lambda: reader.read().report)
            return reader.read()
        finally:
            reader.close()

    def done(self, rank: int) -> int:
        """How many collectives of the first group its page shows."""
        return self.page(rank).report["groups"].get("0", 0)

    def settle(self) -> None:
        """Wait until the pages show all that was done so far."""
        for rank in (0, 1):
            before = self.page(rank).beat
            until(lambda rank=rank, before=before: self.page(rank).beat >= before + 2)


@contextmanager
def started(folder: Path, env: Mapping[str, str] | None = None) -> Generator[Pair]:
    """Start both ranks, with more variables, and join them."""
    live = folder / "live"
    live.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
    envs = [{**rank_env(live, number, 2, port), **(env or {})} for number in range(2)]
    first, second = [Child(folder / str(n), RANK, each) for n, each in enumerate(envs)]
    try:
        first.do("1")
        job = Pair(live, (first, second), "")
        job = job._replace(phase_before=job.page(0).report["phase"])
        job.both("dist.init_process_group('gloo')")
        yield job
    finally:
        first.end()
        second.end()
