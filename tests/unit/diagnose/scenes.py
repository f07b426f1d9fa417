"""Jobs for the tests: a healthy one of any layout, and the faults that befall it."""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from unstuck.diagnose.diagnose import diagnose
from unstuck.model.life import Life, Sign
from unstuck.model.rank import (
    CodeLine,
    Failure,
    GroupProgress,
    Operation,
    Pace,
    Phase,
    PointToPoint,
    Process,
    ProcessState,
    RankState,
)
from unstuck.model.snapshot import NodeState, Snapshot
from unstuck.model.verdict import Verdict

NOW = 1_800_000_000.0
C10D = "/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
ENGINE = CodeLine(
    "/lib/python3.11/site-packages/torch/autograd/graph.py", 869, "_engine_run_backward"
)
CLOSED = "[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:48026."
TIMED_OUT = "[gloo/unbound_buffer.cc:78] Timed out waiting 5000ms for recv operation to complete"
LEARNED = Pace(gaps=100, typical=0.1, longest=0.2)


def user(text: str, line: int = 20, function: str = "train") -> CodeLine:
    return CodeLine("train.py", line, function, text, user=True)


def inside(function: str, text: str = "") -> tuple[CodeLine, ...]:
    """The stack of a rank that is in a function of torch.distributed."""
    return (CodeLine(C10D, 2800, function), user(text or f"dist.{function}(x)"))


@dataclass
class Scene:
    """A job to be changed rank by rank, then frozen into a snapshot."""

    layout: dict[str, tuple[int, ...]]
    states: dict[int, RankState] = field(default_factory=dict[int, RankState])
    nodes: dict[str, NodeState] = field(default_factory=dict[str, NodeState])
    world_size: int = 0
    shows_life: bool = False

    def change(self, rank: int, **fields: Any) -> "Scene":
        self.states[rank] = msgspec.structs.replace(self.states[rank], **fields)
        return self

    def process(self, rank: int, **fields: Any) -> "Scene":
        process = msgspec.structs.replace(self.states[rank].process, **fields)
        return self.change(rank, process=process)

    def node(self, host: str, **fields: Any) -> "Scene":
        self.nodes[host] = msgspec.structs.replace(self.nodes[host], **fields)
        return self

    def progress(self, rank: int, group: str, **fields: Any) -> "Scene":
        groups = tuple(
            msgspec.structs.replace(one, **fields) if one.name == group else one
            for one in self.states[rank].groups
        )
        return self.change(rank, groups=groups)

    def reached(self, rank: int, group: str = "0") -> int:
        return next(one.enqueued for one in self.states[rank].groups if one.name == group)

    def enter(
        self,
        rank: int,
        group: str = "0",
        op: str = "all_reduce",
        sizes: tuple[tuple[int, ...], ...] = ((4,),),
        stalled: float = 10.0,
        **fields: Any,
    ) -> "Scene":
        """Let a rank begin one more collective of a group and wait in it."""
        number = self.reached(rank, group) + 1
        operation = Operation(group, number, op, sizes, ("Float",), stalled)
        old = next(one.pending for one in self.states[rank].groups if one.name == group)
        self.progress(rank, group, enqueued=number, pending=(*old, operation))
        told: dict[str, Any] = {
            "in_flight": True,
            "stalled_for": stalled,
            "recorder_age": 0.5,
            "stack": inside(op),
        }
        self.process(rank, state="S", waits_in="futex_wait_queue", cpu=0.0)
        return self.change(rank, **(told | fields))

    def message(self, rank: int, *pending: PointToPoint, call: str, stalled: float = 10.0) -> None:
        """Let a rank wait in sends and receives."""
        self.process(rank, state="S", waits_in="futex_wait_queue", cpu=0.0)
        self.change(
            rank,
            p2p=self.states[rank].p2p + pending,
            in_flight=True,
            stalled_for=stalled,
            recorder_age=0.5,
            stack=inside(call),
        )

    def sleep(self, rank: int, stalled: float = 11.0, **fields: Any) -> "Scene":
        """Put a rank to sleep in its own code, with a stack that was taken since."""
        self.process(rank, state="S", waits_in="hrtimer_nanosleep", cpu=0.0)
        stack = (user("time.sleep(3600)", 31, "evaluate"),)
        told: dict[str, Any] = {"stalled_for": stalled, "stack": stack, "stack_age": 0.5}
        return self.change(rank, **(told | {"recorder_age": 0.5} | fields))

    def stop(self, rank: int, stalled: float = 11.0) -> "Scene":
        self.process(rank, state="T", waits_in="do_signal_stop", cpu=0.0)
        return self.change(rank, stalled_for=stalled, beat_age=stalled)

    def end(self, rank: int, code: int | None, ago: float, phase: str = "run") -> "Scene":
        self.process(rank, state="gone", exit_code=code, gone_for=ago)
        return self.change(rank, phase=phase, in_flight=False)

    def fail(
        self, rank: int, kind: str, message: str, ago: float, at: CodeLine | None = None
    ) -> "Scene":
        failure = Failure(kind, message, ago, at or user("dist.all_reduce(x)"))
        return self.change(rank, failure=failure, phase="exception")

    def snapshot(self) -> Snapshot:
        ranks = tuple(self.states[rank] for rank in sorted(self.states))
        world = self.world_size or len(ranks)
        nodes = tuple(self.nodes.values())
        return Snapshot(NOW, nodes, ranks, 0, world, shows_life=self.shows_life)


def job(
    size: int = 4, layout: dict[str, tuple[int, ...]] | None = None, per_host: int = 0
) -> Scene:
    """A healthy job between two collectives; without a layout all ranks share group 0."""
    groups = layout if layout is not None else {"0": tuple(range(size))}
    of_rank: dict[int, list[GroupProgress]] = {rank: [] for rank in range(size)}
    for name, ranks in groups.items():
        progress = GroupProgress(name, ranks, 40, 40, backend="gloo")
        for rank in ranks:
            of_rank[rank].append(progress)
    scene = Scene(groups, world_size=size)
    for rank in range(size):
        host = f"host{rank // per_host if per_host else 0}"
        scene.nodes.setdefault(host, NodeState(f"{host}-1", host, 0.4))
        scene.states[rank] = RankState(
            rank=rank,
            host=host,
            process=Process(1000 + rank, ProcessState.RUNNING, cpu=0.95, rss=1 << 28),
            attempt="a",
            world_size=size,
            phase=Phase.RUN,
            step=40,
            stalled_for=0.05,
            pace=LEARNED,
            groups=tuple(of_rank[rank]),
            stack=(user("loss = model(batch)"),),
        )
    return scene


def grid(tp: int, pp: int, dp: int) -> dict[str, tuple[int, ...]]:
    """Groups of a TP x PP x DP job: rank = (dp index * pp + pp index) * tp + tp index."""

    def rank(t: int, p: int, d: int) -> int:
        return (d * pp + p) * tp + t

    layout = {"0": tuple(range(tp * pp * dp))}
    for p in range(pp):
        for d in range(dp):
            layout[f"tp{p}.{d}"] = tuple(rank(t, p, d) for t in range(tp))
    for t in range(tp):
        for d in range(dp):
            layout[f"pp{t}.{d}"] = tuple(rank(t, p, d) for p in range(pp))
    for t in range(tp):
        for p in range(pp):
            layout[f"dp{t}.{p}"] = tuple(rank(t, p, d) for d in range(dp))
    return layout


def verdict_of(scene: Scene) -> Verdict:
    """The verdict, which must be there and must not count a culprit as a victim."""
    verdict = diagnose(scene.snapshot()).verdict
    assert verdict is not None
    assert not {one.rank for one in verdict.culprits} & set(verdict.victims)
    return verdict


def silent(scene: Scene) -> bool:
    return diagnose(scene.snapshot()).verdict is None


def culprits(verdict: Verdict) -> list[int]:
    return [one.rank for one in verdict.culprits]


def watched(scene: Scene, rank: int, quiet: float, *signs: Sign, **rates: float) -> Scene:
    """Let the agents look for signs of life; this rank has shown none for so long."""
    scene.shows_life = True
    return scene.change(rank, life=Life(quiet + 1.0, quiet, signs, **rates))


def one_sleeps(size: int = 4, sleeper: int = 2) -> Scene:
    """One rank sleeps, all others wait for it in an all_reduce."""
    scene = job(size)
    for rank in range(size):
        if rank != sleeper:
            scene.enter(rank)
    return scene.sleep(sleeper)
