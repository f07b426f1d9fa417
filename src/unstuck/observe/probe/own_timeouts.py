"""The timeouts that this rank really has: of its groups, its store, and its environment."""

import os
import re
from collections.abc import Mapping
from typing import Any

_RELEVANT = re.compile(
    r"(TORCH_)?(NCCL|GLOO)_\w*(TIMEOUT|WAIT|HEARTBEAT|ASYNC_ERROR|MONITORING|MILSEC)\w*"
    r"|(TORCH_DIST|DIST_|DDP_|PROCESS_GROUP_|PG_|C10D_|TORCH_?ELASTIC)\w*TIMEOUT\w*"
    r"|PET_(RDZV_\w+|NNODES|MONITOR_INTERVAL|SHUTDOWN_TIMEOUT|MASTER_PORT|STANDALONE)"
    r"|TORCHELASTIC_RUN_ID|TORCH_DISTRIBUTED_DEBUG|SLURM_(JOB_ID|JOB_START_TIME|JOB_END_TIME)|KUBERNETES_SERVICE_HOST"
)
_LONGEST_VALUE = 80


def relevant(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are, or look like, timeouts of a distributed job.

    Example:
        >>> relevant({"NCCL_TIMEOUT": "5400", "HOME": "/root"})
        {'NCCL_TIMEOUT': '5400'}
    """
    found = ((name, env[name]) for name in sorted(env) if _RELEVANT.fullmatch(name))
    return {name: value[:_LONGEST_VALUE] for name, value in found}


def read(c10d: Any) -> dict[str, Any]:
    """Return what is in effect after init. Some 50 us; run it in the helper thread."""
    return {"store": _store_seconds(c10d), "env": relevant(os.environ)}


def group_seconds(group: Any) -> float:
    """Return how long an operation of a process group may take; 0 where torch does not tell."""
    try:
        devices = group._device_types
    except Exception:
        return 0.0
    for device in devices:
        try:
            return float(group._get_backend(device).options._timeout.total_seconds())
        except Exception:
            continue
    return 0.0


def _store_seconds(c10d: Any) -> float:
    try:
        return float(c10d._get_default_store().timeout.total_seconds())
    except Exception:
        return 0.0
