"""What the ranks of the tests of `@unstuck.resilient` do."""

import itertools
import os
import signal
import time
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

import unstuck
from ranks import Rank
from unstuck import dist
from unstuck.dist.rebuilding import connecting
from unstuck.dist.resilient.membership import Membership
from unstuck.dist.resilient.resilient import Resilient

STEPS = 24
SETTLE = 40.0


def _made(run: Resilient) -> tuple[Any, Any]:
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(3, 1))
    return model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def _step(model: Any, optimizer: Any, step: int, seat: int) -> None:
    optimizer.zero_grad()
    data = torch.full((2, 3), float(step % 5 + seat + 1)) / 10
    (model(data) - 1.0).pow(2).mean().backward()
    optimizer.step()


def _weights(model: Any) -> list[float]:
    return [round(float(value), 6) for value in model.module.weight.flatten()]


def loses_one(me: Rank, how: str) -> Any:
    """Train; halfway through, the last rank dies or raises an error."""
    last = me.size - 1
    seen: list[int] = []
    times: list[float] = []

    @unstuck.resilient(min_ranks=2, checkpoint=4, settle=SETTLE if how == "dies" else 1.5)
    def train(run: Resilient) -> Any:
        model, optimizer = _made(run)
        for step in run.steps(STEPS, model=model, optimizer=optimizer):
            if run.seat == last and step == 10:
                me.store.set("lonely", "yes")
                if how == "dies":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise ValueError("mine")
            _step(model, optimizer, step, run.seat)
            seen.append(step)
            times.append(time.monotonic())
        return run.members, run.losses, dist.get_world_size(), run.share, _weights(model)

    try:
        found = train() or ()
    except ValueError as error:
        dist.leave()
        return f"{error}"
    longest = max(after - before for before, after in itertools.pairwise(times))
    return *found, seen, longest


def loses_another_while_it_regroups(me: Rank, second: int, where: str, timeout: float) -> Any:
    """Train; the last rank dies, and another one when the others have agreed to continue."""
    if me.rank == second:
        module = {"connect": connecting, "store": Membership}[where]
        setattr(module, where, lambda *_: os.kill(os.getpid(), signal.SIGKILL))

    @unstuck.resilient(min_ranks=2, checkpoint=4, timeout=timeout)
    def train(run: Resilient) -> Any:
        model, optimizer = _made(run)
        for step in run.steps(STEPS, model=model, optimizer=optimizer):
            if run.seat == me.size - 1 and step == 10:
                me.store.set("lonely", "yes")
                os.kill(os.getpid(), signal.SIGKILL)
            _step(model, optimizer, step, run.seat)
        return run.members, dist.get_world_size(), _weights(model)

    return train()


def comes_back(me: Rank) -> Any:
    """Train; a rank is stopped, the others continue, and it is let in when it is back."""
    last = me.size - 1
    worlds: set[int] = set()
    happened: set[str] = set()

    def once(what: str) -> bool:
        new = what not in happened
        happened.add(what)
        return new

    @unstuck.resilient(min_ranks=2, checkpoint=4, patience=2.0, settle=5)
    def train(run: Resilient) -> Any:
        model, optimizer = _made(run)
        step = 0
        for step in run.steps(10_000, model=model, optimizer=optimizer):
            worlds.add(dist.get_world_size())
            if run.seat == last and step == 10 and once("stop"):
                me.store.set("pid", str(os.getpid()))
                os.kill(os.getpid(), signal.SIGSTOP)
            _step(model, optimizer, step, run.seat)
            if run.seat == 0 and len(run.members) == last and step >= 20 and once("continue"):
                os.kill(int(me.store.get("pid")), signal.SIGCONT)
            time.sleep(0.01)
            again = len(run.members) == me.size and "continue" in happened
            over = torch.tensor(float(again and step >= 30))
            dist.all_reduce(over, op=dist.ReduceOp.MAX)
            if over:
                break
        return run.members, _weights(model), step

    return *(train() or ()), sorted(worlds)


def too_few(me: Rank) -> str:
    """Lose a rank where all are needed."""

    @unstuck.resilient(min_ranks=me.size, checkpoint=4, timeout=1, settle=2)
    def train(run: Resilient) -> None:
        for step in run.steps(STEPS):
            if run.seat == me.size - 1 and step == 3:
                me.store.set("lonely", "yes")
                os.kill(os.getpid(), signal.SIGKILL)
            dist.all_reduce(torch.ones(1))

    try:
        train()
    except RuntimeError as error:
        return "".join(error.__notes__)
    return "went on"
