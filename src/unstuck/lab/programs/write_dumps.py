"""Four ranks that go wrong in a chosen way and dump their flight recorders while they hang.

Makes the files of tests/golden/dumps:

    torchrun --nproc-per-node 4 src/unstuck/lab/programs/write_dumps.py FAULT DIRECTORY

FAULT is healthy, absent, skipped, wrong-op or inversion; rank 2 is at fault. Each rank writes
`trace_<rank>.json` and the pickle `trace_<rank>`, with the paths of this machine replaced by
others of the same length, so that the pickle stays byte for byte what torch wrote.
"""

import os
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

FAULT, TARGET = sys.argv[1], Path(sys.argv[2])
RANK = int(os.environ["RANK"])
AT_FAULT = FAULT != "healthy" and RANK == 2
STEPS = 6
DUMP_AFTER = 4.0


def anonymous(content: bytes) -> bytes:
    for place in (sys.prefix, str(Path(__file__).resolve().parent)):
        content = content.replace(place.encode(), b"/home/".ljust(len(place), b"u"))
    return content


def write() -> None:
    bindings = import_module("torch._C._distributed_c10d")
    (TARGET / f"trace_{RANK}.json").write_bytes(anonymous(bindings._dump_fr_trace_json()))
    (TARGET / f"trace_{RANK}").write_bytes(anonymous(bindings._dump_fr_trace()))


def write_and_leave() -> None:
    time.sleep(DUMP_AFTER)
    write()
    time.sleep(DUMP_AFTER)
    os._exit(0)


def step(number: int, first: dist.ProcessGroup, second: dist.ProcessGroup) -> None:
    at_fault = AT_FAULT and number == STEPS - 1
    if at_fault and FAULT == "absent":
        time.sleep(60)
    if at_fault and FAULT == "wrong-op":
        dist.broadcast(torch.ones(4), src=0)
    elif not (at_fault and FAULT == "skipped"):
        dist.all_reduce(torch.ones(4))
    if FAULT == "skipped":
        dist.barrier()
    groups = (second, first) if at_fault and FAULT == "inversion" else (first, second)
    for group in groups:
        dist.all_gather([torch.ones(2) for _ in range(4)], torch.ones(2), group=group)


dist.init_process_group("gloo")
first: Any = dist.new_group([0, 1, 2, 3], group_desc="first")
second: Any = dist.new_group([0, 1, 2, 3], group_desc="second")
threading.Thread(target=write_and_leave, daemon=True).start()
for number in range(STEPS):
    step(number, first, second)
time.sleep(3 * DUMP_AFTER)
