"""Trains with checkpoints every 10 steps and goes wrong as `FAULT` says, once or `ALWAYS`.

`FAULT`: `kill`, `stop`, `raise`, `memory`, `deadlock`, `mismatch`, `upload` or nothing. Rank 0
prints every step that is done. With `HOOK` rank 0 also saves when unstuck says that the job has
stalled; `HOOK=hang` never comes back from it, `HOOK=die` dies in it. With `AGAIN` the rank dies
again at its restart.
"""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import onset
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import unstuck

ATTEMPT = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
FAULT = os.environ.get("FAULT", "") if ATTEMPT == 0 or "ALWAYS" in os.environ else ""
SAVED = Path(os.environ["CHECKPOINT"])
LIMIT = timedelta(seconds=float(os.environ.get("GROUP_TIMEOUT", "600")))

if "AGAIN" in os.environ and ATTEMPT == 1 and onset.RANK == onset.FAULT_RANK:
    os.kill(os.getpid(), signal.SIGKILL)
dist.init_process_group("gloo", timeout=LIMIT)
torch.manual_seed(7)
model = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
done = 0
if SAVED.exists():
    state = torch.load(SAVED)
    model.load_state_dict(state["model"])
    done = state["done"]
parallel = DistributedDataParallel(model)


def save(why: str) -> None:
    """Write the checkpoint, whole or not at all."""
    draft = SAVED.with_suffix(".new")
    torch.save({"model": model.state_dict(), "done": done}, draft)
    draft.replace(SAVED)
    print(f"saved {done} {why}", flush=True)


@unstuck.on_stall(timeout=5)
def save_now(error: unstuck.StallError) -> None:
    """Save on rank 0, if asked to."""
    if os.environ.get("HOOK") == "hang":
        time.sleep(600)
    elif os.environ.get("HOOK") == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif onset.RANK == 0 and "HOOK" in os.environ:
        save("on stall")


def go_wrong() -> None:
    onset.mark()
    if FAULT == "kill":
        os.kill(os.getpid(), signal.SIGKILL)  # fault
    elif FAULT == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)  # fault
    elif FAULT == "raise":
        raise ValueError("bad batch")  # fault
    elif FAULT == "memory":
        torch.empty(1 << 50)  # fault
    elif FAULT == "deadlock":
        lock = threading.Lock()
        with lock:
            lock.acquire()  # fault
    elif FAULT == "upload":  # healthy: a checkpoint that goes out slowly, in a pool of threads
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: time.sleep(8), range(2)))
    elif FAULT == "mismatch":
        dist.broadcast(torch.ones(4), src=0)  # fault


while done < int(os.environ.get("STEPS", "60")):
    time.sleep(0.05)
    if FAULT and onset.due(done):
        go_wrong()
    parallel(torch.ones(8, 16)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    done += 1
    if onset.RANK == 0:
        size = dist.get_world_size()
        print(f"attempt {ATTEMPT} step {done} at {time.time():.3f} of {size}", flush=True)
        if done % 10 == 0:
            save("as usual")
dist.destroy_process_group()
