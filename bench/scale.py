"""What a hub costs in jobs of 1,000 to 100,000 ranks, over real sockets with the real wire code.

    python bench/scale.py --ranks 1024,10240,100096

For each size a hub runs in a process of its own, with the whole pipeline behind it. Its agents are
connections of this process, one per node of 8 ranks, which send the frames of a healthy job: four
groups (world, tensor, data, pipeline), a pace, a tempo, a stack and settings, changing from beat to
beat as they do in a job. Then the same job stalls: one rank does not arrive.

A beat is one frame of every node, once a second in a real job. Sent as fast as this process can,
beats are counted by what the hub has confirmed, and paid for in processor time of the hub process;
so the result does not depend on how busy the machine is otherwise, only its spread does.

- `whole B`: bytes a rank and beat as protocol 2 sent them, with the members of all groups in every
  frame; and the cores that only decoding them would take, both from frames of one node
- `first B`, `steady B`: bytes a rank of the first frame of a connection, and of those that follow
- `reading`: cores that the hub needs to receive, check, confirm and take in one beat a second
- `healthy s`, `stalled s`: processor time of one pass over the job, from frames to verdict
- `cores`: reading, and passes over a healthy job with the pauses that the hub makes between them
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from unstuck.collect import parts, wire
from unstuck.collect.hub import hub as hubs
from unstuck.collect.session import REPORT, Session, introduce
from unstuck.lab.layout import Layout
from unstuck.lab.simulate import PER_HOST, Fault, FaultKind, Simulation, snapshot
from unstuck.model.frame import Frame
from unstuck.model.rank import (
    CodeLine,
    GroupProgress,
    Pace,
    Phase,
    Process,
    ProcessState,
    RankSettings,
    RankState,
    Tempo,
)
from unstuck.model.requests import EvidenceRequest
from unstuck.model.snapshot import Snapshot
from unstuck.pipelines.live import Pipeline, prepare_for_many

TOKEN = "of the measurement"  # noqa: S105
BEATS = 4
SETTLES = 30.0
STALLS = 30.0
OVERHEAD = 21
"""Bytes of length, seal and kind."""
TICK = os.sysconf("SC_CLK_TCK")
LINE = CodeLine("/home/user/project/train.py", 131, "train_step", "loss.backward()", user=True)
SETTINGS = RankSettings(300.0, {"NCCL_DEBUG": "WARN", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"})


# --- the job


def healthy(layout: Layout, rank: int, beat: int) -> RankState:
    """Return what an agent says of one rank of a job in which all is well."""
    done = 90_000 + 4 * beat
    groups = tuple(
        GroupProgress(
            name=group.name,
            ranks=group.ranks,
            enqueued=done + 1,
            completed=done,
            description=kind,
            backend="nccl",
            timeout=600.0,
        )
        for kind in ("world", "tp", "dp", "hop")
        for group in (layout.group(kind, rank),)
    )
    jitter = (rank * 7919 + beat * 104_729) % 997 / 1000
    return RankState(
        rank=rank,
        host=f"node-{rank // PER_HOST:05d}",
        process=Process(
            100_000 + rank,
            ProcessState.SLEEPING,
            "futex_wait_queue",
            0.8 + jitter / 10,
            rss=9 << 30,
        ),
        attempt="0123456789abcdef",
        age=90_000.0 + beat + jitter,
        world_size=layout.size,
        local_rank=rank % PER_HOST,
        phase=Phase.RUN,
        step=120_000 + beat,
        beat_age=jitter / 10,
        stalled_for=jitter / 5,
        places=(f"train.py:{131 + (rank + beat) % 3}",),
        lines=1 + beat % 3,
        in_flight=True,
        pace=Pace(50_000 + beat, 0.123, 1.534, 0.4, 1.01, 31.2),
        tempo=Tempo(50, 1.012, 0.201 + jitter / 1000, 0.003, 0.2, 0.001, 0.002),
        groups=groups,
        stack=(replace(LINE, line=131 + (rank + beat) % 3), LINE),
        store="rank 0",
        settings=SETTINGS,
    )


def frames(layout: Layout, beat: int) -> Iterator[Frame]:
    """Yield the frame of every node."""
    for first in range(0, layout.size, PER_HOST):
        ranks = tuple(healthy(layout, rank, beat) for rank in range(first, first + PER_HOST))
        host = ranks[0].host
        yield Frame(f"{host}/1", host, beat + 1, time.time(), ranks)


def stalled(layout: Layout) -> Iterator[Frame]:
    """Yield the frames of the job when one rank has not arrived for a minute."""
    rank = layout.size // 3
    stage = layout.place(rank)[1]
    first = next(i for i, call in enumerate(layout.step) if call.involves(stage))
    at = 3 * len(layout.step) + first
    ranks = snapshot(Simulation(layout, Fault(FaultKind.STUCK, rank, at), 5)).ranks
    for start in range(0, layout.size, PER_HOST):
        host = f"node-{start // PER_HOST:05d}"
        node = tuple(
            replace(one, host=host, attempt="0123456789abcdef")
            for one in ranks[start : start + PER_HOST]
        )
        yield Frame(f"{host}/1", host, 99, time.time(), node)


# --- the hub, in a process of its own


def serve(listener: int, folder: Path) -> None:
    """Serve a hub until SIGTERM; then print what its passes cost."""
    passes: list[dict[str, Any]] = []
    pipeline = Pipeline(folder, ["train.py"], "node-00000")

    def judge(state: Snapshot) -> tuple[EvidenceRequest, ...]:
        kind = "stalled" if state.ranks and state.ranks[0].stalled_for > STALLS else "healthy"
        passes.append({"ranks": len(state.ranks), "kind": kind})
        return pipeline.judge(state)

    class Timed(hubs.Hub):
        def _judge_now(self, now: float) -> None:
            before = time.process_time()
            super()._judge_now(now)
            if passes:
                passes[-1]["seconds"] = time.process_time() - before

    hub = Timed(TOKEN, judge, "node-00000")
    pipeline.connect(hub)
    prepare_for_many()

    def stop() -> None:
        print(json.dumps(passes), flush=True)
        os._exit(0)

    async def go() -> None:
        print("ready", flush=True)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
        with socket.socket(fileno=listener) as sock:
            await hub.serve(sock)

    asyncio.run(go())


# --- its agents


class Node:
    """One agent's connection, with its frames made beforehand."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.first = b""
        self.bodies: list[bytes] = []
        self.confirmed = 0
        self.parts: list[wire.Parts] = []
        self.bytes_first = 0

    def prepare(self, frame: Frame, session: Session) -> None:
        """Write a frame as the agent would; parts are sent when their beat is."""
        packed = session.packer.pack(frame)
        self.parts.append(wire.Parts(packed.parts, packed.begins))
        report = wire.Report(
            frame.number, frame.sent_at, eager=False, node=packed.node, ranks=packed.ranks
        )
        self.bodies.append(wire.body(report))

    def send(self, beat: int) -> int:
        """Send the frame of a beat; return how many bytes that takes."""
        assert self.session is not None
        parts, body = self.parts[beat], self.bodies[beat]
        size = len(body) + OVERHEAD
        if parts.parts:
            encoded = wire.body(parts)
            self.session.send_body(encoded)
            size += len(encoded) + OVERHEAD
        self.session.send_body(body, REPORT)
        return size

    async def listen(self) -> None:
        """Count what the hub confirms, and send what it lacks."""
        assert self.session is not None
        with contextlib.suppress(OSError):
            while True:
                match await self.session.receive():
                    case wire.Heard(number) if number:
                        self.confirmed = number
                    case wire.Lack(wanted):
                        bodies = self.session.packer.bodies(wanted)
                        self.session.send(wire.Parts(bodies))
                    case _:
                        pass


async def connect(port: int, frame: Frame) -> Node:
    """Connect the agent of a node."""
    node = Node()
    while node.session is None:
        with contextlib.suppress(OSError, TimeoutError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            node.session = await introduce(reader, writer, TOKEN, frame.node, frame.host, 1)
    return node


async def until(done: Any) -> None:
    """Wait for the hub."""
    async with asyncio.timeout(600):
        while not done():  # noqa: ASYNC110 - of many connections
            await asyncio.sleep(0.02)


async def measure(layout: Layout, port: int, hub: "subprocess.Popen[str]") -> dict[str, float]:
    """Send beats of a healthy job, let the hub judge, then let the job stall."""
    nodes = [await connect(port, frame) for frame in frames(layout, 0)]
    listening = [asyncio.create_task(node.listen()) for node in nodes]
    for beat in range(BEATS):
        for node, frame in zip(nodes, frames(layout, beat), strict=True):
            assert node.session is not None
            node.prepare(frame, node.session)
    for node, frame in zip(nodes, stalled(layout), strict=True):
        assert node.session is not None
        node.prepare(frame, node.session)

    sent: list[int] = []
    paid: list[float] = []
    total = 0
    # The parts of the first beats are new; the same frames again are what a steady job sends.
    order = [*range(BEATS), *range(BEATS)]
    for number, beat in enumerate(order, start=1):
        before = cpu(hub.pid)
        size = 0
        for count, node in enumerate(nodes):
            size += node.send(beat)
            if count % 64 == 0:
                await asyncio.sleep(0)
        await until(lambda number=number: all(node.confirmed >= number for node in nodes))
        paid.append(cpu(hub.pid) - before)
        sent.append(size)
        total += size
        await asyncio.sleep(0)
    began = time.monotonic()
    await asyncio.sleep(min(SETTLES, max(3.0, layout.size / 5_000)))
    idle = time.monotonic() - began
    for node in nodes:
        node.send(BEATS)
    await until(lambda: all(node.confirmed > len(order) for node in nodes))
    await asyncio.sleep(min(SETTLES, max(3.0, layout.size / 5_000)))
    for task in listening:
        task.cancel()
    return {
        "first": sent[0] / layout.size,
        "steady": statistics.median(sent[BEATS:]) / layout.size,
        "paid": statistics.median(paid[BEATS:]),
        "low": min(paid[BEATS:]),
        "high": max(paid[BEATS:]),
        "idle": idle,
    }


def cpu(pid: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def memory(pid: int) -> float:
    """Return the most memory that a process had, in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def whole(layout: Layout) -> tuple[float, float]:
    """Return bytes a rank and cores of decoding where every frame carries all members."""
    frame = next(frames(layout, 0))
    encoded = msgspec.msgpack.encode(frame)
    decoder = msgspec.msgpack.Decoder(Frame)
    took: list[float] = []
    for _ in range(5):
        before = time.process_time()
        decoder.decode(encoded)
        took.append(time.process_time() - before)
    return len(encoded) / PER_HOST, statistics.median(took) * layout.size / PER_HOST


def one(size: int) -> dict[str, float]:
    """Measure one size."""
    layout = Layout(tp=8, pp=16, dp=max(1, round(size / 128)))
    was = whole(layout)
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(("127.0.0.1", 0), backlog=4096) as listener,
    ):
        command = [sys.executable, __file__, "--hub", str(listener.fileno()), "--folder", folder]
        hub = subprocess.Popen(
            command,
            pass_fds=(listener.fileno(),),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert hub.stdout is not None
            assert hub.stdout.readline() == "ready\n"
            found = asyncio.run(measure(layout, listener.getsockname()[1], hub))
            found["memory"] = memory(hub.pid)
            hub.terminate()
            passes = json.loads(hub.communicate(timeout=120)[0].splitlines()[-1])
        finally:
            hub.kill()
            hub.wait()
    for kind in ("healthy", "stalled"):
        took = [one["seconds"] for one in passes if one["kind"] == kind and "seconds" in one
                and one["ranks"] == layout.size]  # fmt: skip
        found[kind] = statistics.median(took) if took else float("nan")
    found["ranks"], found["whole"], found["whole cores"] = layout.size, *was
    return found


def share_work() -> None:
    """Write each list of members once: here one process does what every agent does on its node."""
    written: dict[int, tuple[Any, list[int]]] = {}
    write = parts.to_ranges

    def once(members: Any) -> list[int]:
        if id(members) not in written:
            written[id(members)] = (members, write(members))
        return written[id(members)][1]

    parts.to_ranges = once


@click.command()
@click.option("--ranks", default="1024,10240,100096", help="Job sizes.")
@click.option("--hub", type=int, hidden=True)
@click.option("--folder", type=Path, hidden=True)
def main(ranks: str, hub: int | None, folder: Path | None) -> None:
    """Print one table."""
    if hub is not None and folder is not None:
        serve(hub, folder)
        return
    share_work()
    console = Console(width=140)
    table = Table(
        "ranks", "whole B", "its cores", "first B", "steady B", "reading cores", "µs a rank",
        "healthy s", "stalled s", "cores", "MB", title="One hub, frames once a second",
    )  # fmt: skip
    for size in (int(text) for text in ranks.split(",")):
        found = one(size)
        took = found["healthy"]
        share = took / (took + max(hubs.JUDGE_EVERY, hubs.PAUSES * took))
        table.add_row(
            f"{found['ranks']:,.0f}",
            f"{found['whole']:,.0f}",
            f"{found['whole cores']:.2f}",
            f"{found['first']:,.0f}",
            f"{found['steady']:.0f}",
            f"{found['paid']:.2f} ({found['low']:.2f}-{found['high']:.2f})",
            f"{found['paid'] / found['ranks'] * 1e6:.1f}",
            f"{found['healthy']:.3f}",
            f"{found['stalled']:.3f}",
            f"{found['paid'] + share:.2f}",
            f"{found['memory']:,.0f}",
        )
        console.print(table)


if __name__ == "__main__":
    main()
