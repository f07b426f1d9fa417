"""Healthy: checkpoints are written by a thread, slowly on rank 0, and waited for at the end."""

import shutil
import tempfile
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_saver import async_save


class SlowStorage(FileSystemWriter):
    """Writes as if far away: rank 0 needs 8 s, and the threads of the others wait for it."""

    def write_data(self, plan: Any, planner: Any) -> Any:
        if dist.get_rank() == 0:
            time.sleep(8)
        return super().write_data(plan, planner)


dist.init_process_group("gloo", timeout=timedelta(seconds=600))
shared: list[Any] = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
dist.broadcast_object_list(shared)
model = {"weights": torch.ones(1000)}
for checkpoint in range(2):
    for _ in range(20):
        time.sleep(0.1)
        dist.all_reduce(torch.ones(4))
    saving: Any = async_save(model, storage_writer=SlowStorage(f"{shared[0]}/{checkpoint}"))
    saving.result()
dist.barrier()
if dist.get_rank() == 0:
    shutil.rmtree(shared[0])
    print("trained", flush=True)
dist.destroy_process_group()
