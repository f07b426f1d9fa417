"""The article's second example, made to work: a limit for one part of the training.

The article starts a `threading.Timer` that prints "timed out" while the work continues, on every
rank separately. Here the work is interrupted when its time is up, and all ranks learn about it:

    torchrun --standalone --nproc-per-node 2 examples/article/2_section.py
    torchrun --standalone --nproc-per-node 2 examples/article/2_section.py --work 7
"""

import argparse
import time

import torch
import torch.distributed as dist

import unstuck


def my_function(seconds: float) -> None:
    """Do something that may take too long, in this example on the last rank only."""
    time.sleep(seconds if dist.get_rank() == dist.get_world_size() - 1 else 0.5)


def limited(seconds: float, limit: float) -> bool:
    """Tell whether it was done in time; after `limit` seconds it is interrupted."""
    try:
        with unstuck.section("my function", timeout=limit, on_timeout="raise"):
            my_function(seconds)
    except unstuck.SectionTimeout as error:
        print(f"rank {dist.get_rank()}: {error}", flush=True)
        return False
    return True


def main() -> None:
    """Run it, and let all ranks agree on what to do next."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=float, default=1.0, help="seconds on the last rank")
    parser.add_argument("--limit", type=float, default=5.0)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    began = time.monotonic()
    done = torch.tensor([int(limited(options.work, options.limit))])
    dist.all_reduce(done)
    if dist.get_rank() == 0:
        late = dist.get_world_size() - int(done.item())
        took = time.monotonic() - began
        print(f"{late} ranks were late; all continue together after {took:.1f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
