"""The article's third example, made to work: a heartbeat between the nodes.

In the article every rank sends before it receives, on the training's own process group: a loop
that cannot run during the training, and that waits for a dead rank as long as the training does.
Here the agents of the nodes exchange heartbeats, outside the training and never on its groups; the
ranks are notified when another one falls silent, and when it is back:

    torchrun --standalone --nproc-per-node 4 examples/article/3_heartbeat.py
    torchrun --standalone --nproc-per-node 4 examples/article/3_heartbeat.py --stop 2

With `--stop 2` rank 2 is stopped for a few seconds, as if its machine were swapping or hanging. The
others are notified while they wait for it in the all-reduce, long before that could time out.
"""

import argparse
import os
import signal
import subprocess
import time

import torch
import torch.distributed as dist

import unstuck


def heard(what: str) -> None:
    """Print an event with the time and the rank."""
    print(f"{time.time():.2f} rank {os.environ['RANK']}: {what}", flush=True)


def stop_this_rank(seconds: float) -> None:
    """Stop this process; another one wakes it again."""
    heard("stops")
    subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -CONT {os.getpid()}"])
    os.kill(os.getpid(), signal.SIGSTOP)
    heard("continues")


def main() -> None:
    """Train a little; at the end rank 0 prints which ranks are there."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--stop", type=int, help="the rank that is stopped")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--run-dir")
    options = parser.parse_args()
    unstuck.watch(
        run_dir=options.run_dir,
        on_silent=lambda peer: heard(f"rank {peer.rank} is silent ({peer.state})"),
        on_back=lambda peer: heard(f"rank {peer.rank} is back"),
    )
    dist.init_process_group("gloo")
    for step in range(40):
        if step == 20 and dist.get_rank() == options.stop:
            stop_this_rank(options.seconds)
        dist.all_reduce(torch.ones(1))
        time.sleep(0.1)
    if dist.get_rank() == 0:
        peers = unstuck.peers()
        heard(f"{len(peers.ranks)} ranks, silent: {peers.silent}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
