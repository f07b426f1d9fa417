"""Does a training that loses ranks three times end where an undisturbed one ends?

The same training with the same seed: undisturbed, and with three faults (a rank is killed, another
is stopped, the first one is killed), once under `unstuck run --recover`, where all ranks are
restarted from a checkpoint, and once with `@unstuck.resilient`, where the other ranks continue and
the lost rank joins them again.

    python bench/loss_curve.py --plot docs/loss.svg

The loss is that of the whole model on data that no rank trains on.
"""

import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

RANKS = 3
STEPS = 400
FAULTS = {86: (2, signal.SIGKILL), 186: (1, signal.SIGSTOP), 286: (0, signal.SIGKILL)}
"""Step -> the rank that is faulty then and the signal it is sent, once each."""
STOPPED_FOR = 12
WAYS = ("undisturbed", "recover", "resilient")
_LINE = re.compile(r"^at ([\d.]+) step (\d+) of (\d+) loss ([\d.e+-]+)$", re.MULTILINE)


class Point(NamedTuple):
    """One completed step."""

    at: float
    step: int
    ranks: int
    loss: float


# --- in the ranks


def batch(number: int, count: int = 32) -> tuple[Any, Any]:
    """Return the data with a number: always and everywhere the same."""
    import torch

    generator = torch.Generator().manual_seed(number)
    data = torch.randn(count, 16, generator=generator)
    noise = 0.3 * torch.randn(count, 1, generator=generator)
    return data, torch.sin(data @ torch.linspace(-1, 1, 16).reshape(16, 1)) + noise


class Training:
    """Model and data of one rank, for the current world."""

    def __init__(self) -> None:
        import torch
        from torch.nn.parallel import DistributedDataParallel

        torch.manual_seed(7)
        layers = (torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
        self.model = torch.nn.Sequential(*layers)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.parallel = DistributedDataParallel(self.model)
        self.unseen = batch(10**6, 512)

    def step(self, number: int, rank: int, size: int) -> None:
        """Train on this rank's part of the step; the first rank prints the loss."""
        import torch

        go_wrong(number)
        data, wanted = batch(number * RANKS + rank)
        self.optimizer.zero_grad()
        (self.parallel(data) - wanted).square().mean().backward()
        self.optimizer.step()
        time.sleep(0.05)
        if rank == 0:
            with torch.no_grad():
                loss = (self.model(self.unseen[0]) - self.unseen[1]).square().mean().item()
            print(f"at {time.time():.3f} step {number + 1} of {size} loss {loss:.6f}", flush=True)


def go_wrong(step: int) -> None:
    """Inject the fault of this step into this rank, unless that has been done."""
    rank, number = FAULTS.get(step, (-1, 0))
    done = Path(os.environ["FOLDER"], f"fault-{step}")
    if "FAULTS" in os.environ and rank == int(os.environ["RANK"]) and not done.exists():
        done.touch()
        if number == signal.SIGSTOP:
            again = f"sleep {STOPPED_FOR}; kill -CONT {os.getpid()} 2> /dev/null"
            subprocess.Popen(["sh", "-c", again], start_new_session=True)
        os.kill(os.getpid(), number)


def restarted() -> None:
    """Train with a checkpoint every ten steps."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    training, done = Training(), 0
    saved = Path(os.environ["FOLDER"], "saved.pt")
    parts = {"model": training.model, "optimizer": training.optimizer}
    if saved.exists():
        state = torch.load(saved)
        done = state["done"]
        for name, part in parts.items():
            part.load_state_dict(state[name])
    for step in range(done, STEPS):
        training.step(step, dist.get_rank(), dist.get_world_size())
        if dist.get_rank() == 0 and (step + 1) % 10 == 0:
            state = {name: part.state_dict() for name, part in parts.items()}
            torch.save(state | {"done": step + 1}, saved.with_suffix(".new"))
            saved.with_suffix(".new").replace(saved)
    dist.destroy_process_group()


def resilient() -> None:
    """Train with copies of the state in memory."""
    import unstuck
    from unstuck import dist

    @unstuck.resilient(min_ranks=1, checkpoint=10)
    def train(run: unstuck.Resilient) -> None:
        training = Training()
        stateful = {"model": training.model, "optimizer": training.optimizer}
        for step in run.steps(STEPS, **stateful):
            training.step(step, dist.get_rank(), dist.get_world_size())

    dist.init_process_group("gloo")
    train()
    dist.destroy_process_group()


# --- outside the ranks


def command(way: str, folder: Path) -> list[str]:
    """Return the launch command of one way."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    torchrun += ["--nproc-per-node", str(RANKS), "--max-restarts", "5", __file__, "--rank", way]
    asked = {"undisturbed": [], "recover": ["--recover"], "resilient": ["--respawn", "5"]}[way]
    watch = [sys.executable, "-m", "unstuck", "run", "--run-dir", str(folder / "run"), *asked]
    return [*watch, "--", *torchrun]


def play(way: str) -> list[Point]:
    """Train once; return every completed step, including repeated ones."""
    with tempfile.TemporaryDirectory(prefix="unstuck-bench-") as name:
        env = {**os.environ, "FOLDER": name, "OMP_NUM_THREADS": "1"}
        env |= {} if way == "undisturbed" else {"FAULTS": "1"}
        out = Path(name, "out")
        with out.open("w") as file:
            subprocess.run(command(way, Path(name)), check=True, stdout=file, env=env)
        found = _LINE.findall(out.read_text())
    return [Point(float(at), int(step), int(size), float(loss)) for at, step, size, loss in found]


def summary(way: str, points: list[Point]) -> str:
    """Summarize one way."""
    again = len(points) - len({point.step for point in points})
    took = points[-1].at - points[0].at
    sizes = sorted({point.ranks for point in points})
    last = [point.loss for point in points[-20:]]
    return (
        f"{way:<12} {took:6.1f} s  {again:3} steps repeated  ranks {sizes}  "
        f"last loss {points[-1].loss:.4f} (over the last 20 steps {min(last):.4f} "
        f"to {max(last):.4f})"
    )


COLOURS = {"undisturbed": "#888888", "recover": "#1f77b4", "resilient": "#d62728"}
WIDE, HIGH, LEFT, TOP = 720, 360, 60, 20


def pieces(points: list[Point]) -> Iterator[tuple[list[Point], str]]:
    """Split a curve where no step was completed for a second; the gap is dotted."""
    piece = points[:1]
    for before, after in itertools.pairwise(points):
        if after.at - before.at > 1:
            yield piece, ""
            yield [before, after], 'stroke-dasharray="1 4"'
            piece = []
        piece.append(after)
    yield piece, ""


def plot(curves: dict[str, list[Point]]) -> str:
    """Draw the losses over time as SVG; the time that a fault cost is dotted."""
    longest = max(points[-1].at - points[0].at for points in curves.values())
    most = max(point.loss for points in curves.values() for point in points)

    def x(seconds: float) -> float:
        return LEFT + (WIDE - LEFT - 20) * seconds / longest

    def y(loss: float) -> float:
        return HIGH - 40 - (HIGH - 40 - TOP) * loss / most

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDE}" height="{HIGH}" fill="white"/>',
        f'<path d="M{LEFT} {TOP}V{HIGH - 40}H{WIDE - 20}" fill="none" stroke="black"/>',
        f'<text x="{WIDE / 2}" y="{HIGH - 8}" text-anchor="middle">seconds</text>',
        f'<text x="16" y="{HIGH / 2}" text-anchor="middle" '
        f'transform="rotate(-90 16 {HIGH / 2})">loss on unseen data</text>',
    ]
    lines += [
        f'<text x="{LEFT - 6}" y="{y(loss) + 4}" text-anchor="end">{loss:g}</text>'
        for loss in (0.0, 0.2, 0.4, 0.6)
    ]
    lines += [
        f'<text x="{x(seconds):.1f}" y="{HIGH - 24}" text-anchor="middle">{seconds}</text>'
        for seconds in range(0, int(longest) + 1, 10)
    ]
    for number, (way, points) in enumerate(curves.items()):
        colour, began = COLOURS[way], points[0].at
        for run, how in pieces(points):
            path = " ".join(f"{x(one.at - began):.1f},{y(one.loss):.1f}" for one in run)
            lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" {how}/>')
        text = f"{way}: ends at {points[-1].loss:.4f}"
        lines.append(f'<text x="{WIDE - 260}" y="{40 + 18 * number}" fill="{colour}">{text}</text>')
    return "\n".join([*lines, "</svg>\n"])


@click.command()
@click.option("--plot", "file", type=click.Path(path_type=Path), help="Write an SVG to this file.")
@click.option("--rank", "way", type=click.Choice(WAYS), hidden=True)
def main(*, file: Path | None, way: str | None) -> None:
    """Train three times and compare."""
    if way is not None:
        (resilient if way == "resilient" else restarted)()
        return
    curves: dict[str, list[Point]] = {}
    for each in WAYS:
        curves[each] = play(each)
        print(summary(each, curves[each]), flush=True)
    if file is not None:
        file.write_text(plot(curves))


if __name__ == "__main__":
    main()
