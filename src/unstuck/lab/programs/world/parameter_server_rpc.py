"""A parameter server by torch.distributed.rpc: the workers call it, each at its own pace."""

import shift
import torch
from torch.distributed import rpc

parameters = torch.ones(1000)


def update(gradient: torch.Tensor) -> torch.Tensor:
    parameters.sub_(0.01 * gradient)
    return parameters


def work() -> None:
    current = torch.ones(1000)
    while shift.time.monotonic() < shift.END:
        shift.accelerator(shift.chance.choice((0.5, 2, 10, 20)))
        current = rpc.rpc_sync("server", update, (current.sin(),))


name = f"worker{shift.RANK}" if shift.RANK else "server"
# Its transport by shared memory would keep a core busy for each process.
options = rpc.TensorPipeRpcBackendOptions(_transports=["uv"])
rpc.init_rpc(name, rank=shift.RANK, world_size=shift.WORLD, rpc_backend_options=options)
if shift.RANK:
    work()
rpc.shutdown()
shift.trained()
