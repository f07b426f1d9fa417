"""A process group of this process alone, for tests that need no other ranks."""

import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import torch.distributed
from torch._C._distributed_c10d import HashStore

from unstuck import dist


@pytest.fixture
def world() -> Iterator[Any]:
    """Make a default group of one rank; destroy whatever the test leaves."""
    hook = sys.excepthook
    store = HashStore()
    limit = timedelta(seconds=60)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1, timeout=limit)
    yield torch.distributed.group.WORLD
    dist.leave()
    sys.excepthook = hook  # torch adds its own with every default group
