"""Healthy: ranks start other processes that fail, a check and a whole job among them.

Rank 1 is started by a shell script that runs a check first. Rank 0 starts a helper before it
imports torch, and trains on while a torchrun of its own fails beside it. With `FAULT` rank 2
goes to sleep after all that.
"""

import os
import subprocess
import sys
import time
from datetime import timedelta

CHECK = "import sys, torch.distributed; sys.exit(3)"
SCRIPT = '"$PYTHON" -c "$CHECK"; exec "$PYTHON" -u "$0"'
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1")
RANK = os.environ["RANK"]
INNER = "INNER" in os.environ

if not INNER and RANK == "1" and "CHECK" not in os.environ:
    os.environ.update(CHECK=CHECK, PYTHON=sys.executable)
    os.execv("/bin/sh", ["sh", "-c", f"{SCRIPT}; exit $?", sys.argv[0]])
if not INNER and RANK == "0":
    subprocess.run([sys.executable, "-c", CHECK], check=False)

import onset  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

dist.init_process_group("gloo", timeout=timedelta(seconds=600))
if INNER:
    dist.all_reduce(torch.ones(4))
    sys.exit(1)

beside = None
steps = 10_000 if "FAULT" in os.environ else int(os.environ.get("STEPS", "100"))
ended = torch.zeros(1)
step = after = 0
while after < steps:
    time.sleep(0.1)
    step += 1
    if step == 5 and RANK == "0":
        command = [sys.executable, *TORCHRUN, __file__]
        beside = subprocess.Popen(command, env=os.environ | {"INNER": "1"})
    if beside is not None and beside.poll() is not None:
        ended[0] = 1
    dist.all_reduce(ended, op=dist.ReduceOp.MAX)
    after += int(ended.item())
    if "FAULT" in os.environ and after == 30 and onset.RANK == onset.FAULT_RANK:
        onset.mark()
        time.sleep(3600)  # fault
if RANK == "0":
    print("trained", flush=True)
dist.destroy_process_group()
