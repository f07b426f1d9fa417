"""All that is looked at on one machine, in the order in which it is shown."""

import os
from collections.abc import Mapping

from unstuck.model.health import Check
from unstuck.observe.machine import left_over, memory, naming, permissions


def machine(env: Mapping[str, str]) -> list[Check]:
    """Look at this machine; takes about a second.

    Example:
        [check for check in machine(os.environ) if check.rating == "bad"]
    """
    several = env.get("MASTER_ADDR", "") not in ("", "localhost", "127.0.0.1")
    found = [
        memory.shared_memory(),
        memory.main_memory(),
        permissions.open_files(),
        permissions.processes(),
        permissions.locked_memory(),
        permissions.looking_into_ranks(),
        permissions.clock(),
        naming.host_name(several=several),
        *naming.interfaces(env),
        naming.ports(),
        left_over.software(),
        left_over.processes(),
        left_over.files(),
    ]
    return [check for check in found if check is not None]


def user() -> str:
    """Name who looks: limits and rights are that user's."""
    return "root" if os.geteuid() == 0 else f"user {os.geteuid()}"
