"""What a rank reports about itself in the roll call, and what the kernel knows of a silent one."""

import linecache
import os
import sys
import threading
from functools import cache
from typing import Any

from torch.distributed import distributed_c10d as c10d

from unstuck.dist.base import groups, held
from unstuck.observe.probe import frames
from unstuck.observe.probe.this_process import current

_MAIN = threading.main_thread()
_TORCH_FILE = "/distributed_c10d.py"


def answer(group: str) -> dict[str, Any]:
    """Report where this rank is: how far it got in the group, and at which line."""
    known = groups.of_name(group)
    file, line, doing = _doing(frames.of_thread(_MAIN.ident or 0))
    return {
        "index": known.collectives() if known is not None else -1,
        "runs": [call.label() for call in held.runs(group)],
        "torch": _torch_operation(known.pg) if known is not None else "",
        "doing": doing,
        "file": file,
        "line": line,
        "gave_up": held.announced(group),
    }


def _torch_operation(pg: Any) -> str:
    """Return the operation of bare torch that the main thread is in on a group; empty: none."""
    frame = sys._current_frames().get(_MAIN.ident or 0)
    while frame is not None and not frame.f_code.co_filename.endswith(_TORCH_FILE):
        frame = frame.f_back
    if frame is None:
        return ""
    group = frame.f_locals.get("group")
    return frame.f_code.co_name if (group or c10d.group.WORLD) is pg else ""


def _doing(found: list[list[Any]]) -> tuple[str, int, str]:
    if not found:
        return "", 0, "its main thread has ended"
    file, line, function, user = found[-1]
    words = [f"at {os.path.basename(file)}:{line}"]
    if function != "<module>":
        words.insert(0, f"in {function}")
    source = linecache.getline(file, line).strip() if user else ""
    if source:
        words[-1] += f": {source[:80]}"
    call = held.waits(_MAIN.ident or 0)
    if call is not None:
        words.insert(0, f"waiting in {call.label()} on group {call.group.name!r},")
    if current.open:
        words.insert(0, f"in section {current.open[-1].name!r},")
    return str(file), int(line), " ".join(words)


@cache
def machine() -> str:
    """Identify this machine and pid namespace, within which /proc shows the other ranks."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def started(pid: int) -> str:
    """Return when a process started, in kernel ticks; empty: there is no such process."""
    fields = _stat(pid)
    return fields[19] if fields else ""


def state_of(record: dict[str, Any]) -> tuple[str, str]:
    """Return the state (`running`, `stopped`, `gone` or empty) of a local rank, and a phrase."""
    if not machine() or record.get("machine") != machine():
        return "", ""
    pid = int(record["pid"])
    fields = _stat(pid)
    if not fields or fields[19] != record["started"] or fields[0] in "ZX":
        return "gone", f"gone, its process {pid} has ended"
    if fields[0] in "Tt":
        return "stopped", f"stopped, e.g. by SIGSTOP (process {pid})"
    return "running", f"process {pid} is alive (state {fields[0]}) but its Python does not respond"


def _stat(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []
