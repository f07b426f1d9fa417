"""Healthy: the last rank only splits the data; it ends by design, while the others go on."""

import torch.distributed as dist
import training

rank = training.join()
last = dist.get_world_size() - 1
trainers = dist.new_group(list(range(last)))
training.steps(training.HALFWAY)
dist.barrier()
if rank < last:
    training.steps(int(10 * training.PAUSE), trainers)
training.finish()
