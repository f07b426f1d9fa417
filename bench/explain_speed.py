"""How fast logs are read: `unstuck explain` compared to ripgrep, grep, wc and Python's re.

    python bench/explain_speed.py --size 512

Generates a log of 256 interleaved ranks (steps, progress bars, NCCL INFO, warnings, and a failure
at the end), then runs everything over the same cached file on one core. Speeds are by CPU time
(user and system), so that a busy machine does not distort them.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

RANKS = 256
BLOCK_LINES = 20_000


def block(generator: random.Random, step: int) -> bytes:
    """Return a few megabytes of output of a healthy job of 256 ranks."""
    lines: list[str] = []
    for number in range(BLOCK_LINES):
        rank, now = generator.randrange(RANKS), step * BLOCK_LINES + number
        lines.append(one_line(generator, rank, now))
    return ("\n".join(lines) + "\n").encode()


def one_line(generator: random.Random, rank: int, now: int) -> str:
    clock = f"{now // 3600 % 24:02}:{now // 60 % 60:02}:{now % 60:02}"
    loss = generator.random() * 4
    kind = generator.random()
    if kind < 0.70:
        return (
            f"[rank{rank}]: 2026-11-15 {clock},{now % 1000:03} - train - INFO - step {now} "
            f"loss {loss:.4f} lr 3.0e-4 grad_norm {loss / 3:.3f} tokens/s {88000 + now % 999} "
            f"mem 61.{rank % 10} GB"
        )
    if kind < 0.85:
        done = now % 9847
        bar = "#" * (done * 20 // 9847)
        return (
            f"[rank{rank}]: {done * 100 // 9847:3}%|{bar:<20}| {done}/9847 "
            f"[05:50<3:17:42, 1.24s/it, loss={loss:.3f}]"
        )
    if kind < 0.97:
        return (
            f"node-{rank // 8}:{1000 + rank}:{2000 + rank} [{rank % 8}] NCCL INFO Channel "
            f"{now % 16:02}/0 : {rank}[{rank % 8}] -> {(rank + 1) % RANKS}[{(rank + 1) % 8}] "
            f"via P2P/CUMEM/read"
        )
    if kind < 0.9999:
        return (
            f"[rank{rank}]: /opt/venv/lib/python3/site-packages/torch/utils/checkpoint.py:85: "
            f"UserWarning: None of the inputs have requires_grad=True. Gradients will be None"
        )
    return (
        f"[rank{rank}]: 2026-11-15 {clock} - data - ERROR - shard {now % 4096} skipped: bad header"
    )


def failure() -> bytes:
    """Return the end of the job: all ranks but one wait."""
    lines = [
        f"[rank{rank}]:[E1115 12:00:0{rank % 10}.426415540 ProcessGroupNCCL.cpp:629] [Rank {rank}] "
        "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=90210, OpType=ALLREDUCE, "
        "NumelIn=8652160, NumelOut=8652160, Timeout(ms)=600000) ran for 600029 milliseconds "
        "before timing out."
        for rank in range(RANKS)
        if rank != 17
    ]
    return ("\n".join(lines) + "\n").encode()


def make(path: Path, megabytes: int) -> int:
    """Write the log; its blocks repeat, which gives no reader an advantage."""
    generator = random.Random(7)  # noqa: S311
    blocks = [block(generator, step) for step in range(12)]
    size = 0
    with path.open("wb") as file:
        while size < megabytes << 20:
            size += file.write(blocks[(size // len(blocks[0])) % len(blocks)])
        size += file.write(failure())
    return size


def timed(run: Callable[[], object], times: int = 2) -> float:
    """Return the shortest CPU time of a few runs, including child processes."""
    best = float("inf")
    for _ in range(times):
        began = sum(os.times()[:4])
        run()
        best = min(best, sum(os.times()[:4]) - began)
    return best


def command(argv: list[str]) -> Callable[[], object]:
    def run() -> object:
        # Not /dev/null: with that, grep stops at the first match.
        done = subprocess.run(argv, capture_output=True, check=False)
        assert done.returncode in {0, 1}, f"{argv}: {done.stderr.decode()}"
        return done

    return run


def child_peak(argv: list[str]) -> float:
    """Return the peak memory of one run in MB."""
    script = (
        "import resource,subprocess,sys;subprocess.run(sys.argv[1:],stdout=subprocess.DEVNULL);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    out = subprocess.run(
        [sys.executable, "-c", script, *argv], capture_output=True, text=True, check=True
    )
    return int(out.stdout) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=512, help="megabytes [512]")
    parser.add_argument("--keep", type=Path, help="write the log here and keep it")
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        path = options.keep or Path(folder) / "train.log"
        size = make(path, options.size)
        compare(path, size, Path(folder))


def compare(path: Path, size: int, folder: Path) -> None:
    from unstuck.explain.kb.load import load
    from unstuck.explain.kb.match import Matcher
    from unstuck.observe.logs.files import chunks
    from unstuck.observe.logs.find.literals import scanner
    from unstuck.observe.logs.find.templates import WORDS

    anchors = Matcher(load()).literals
    literals = [literal.text for literal in (*anchors, *WORDS)]
    patterns = folder / "literals.txt"
    patterns.write_bytes(b"\n".join(literals) + b"\n")
    fast = scanner((*anchors, *WORDS))

    def scan() -> int:
        with chunks.open_log(str(path)) as stream:
            return sum(len(fast.scan(c.data)) for c in chunks.chunks(stream, str(path)))

    alternation = re.compile(b"|".join(re.escape(text) for text in literals))
    sample = path.read_bytes()[: 8 << 20]
    explain = [sys.executable, "-m", "unstuck", "explain", str(path)]
    rows: list[tuple[str, float]] = [
        ("unstuck explain (all of it)", timed(command(explain))),
        ("our raw scan", timed(scan)),
    ]
    if shutil.which("rg"):
        rg = ["rg", "-j1", "-c", "-F", "-f", str(patterns), str(path)]
        rows.append(("rg -c -F -f literals", timed(command(rg))))
    else:
        print("ripgrep is not installed: left out")
    os.environ["LC_ALL"] = "C"
    rows.append(
        (
            "grep -c -F -f literals",
            timed(command(["grep", "-c", "-F", "-f", str(patterns), str(path)])),
        )
    )
    rows.append(("wc -l", timed(command(["wc", "-l", str(path)]))))
    python = timed(lambda: sum(1 for _ in alternation.finditer(sample)), 1) * size / len(sample)
    rows.append(("Python re, alternation (8 MB, scaled)", python))
    show(rows, size, len(literals))
    print(f"peak memory of unstuck explain: {child_peak(explain):.0f} MB")


def show(rows: list[tuple[str, float]], size: int, literals: int) -> None:
    print(f"{size / 1e6:.0f} MB, {literals} literals, one core")
    whole = rows[0][1]
    for name, seconds in rows:
        print(
            f"{name:<40}{size / 1e6 / seconds:>9.0f} MB/s{seconds / whole:>8.2f} x explain's time"
        )


if __name__ == "__main__":
    main()
