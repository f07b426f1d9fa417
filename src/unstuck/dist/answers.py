"""What a rank says of itself in the roll call, and what the kernel says of one that is silent."""

import linecache
import os
import sys
import threading
from functools import cache
from typing import Any

from torch.distributed import distributed_c10d as c10d

from unstuck.dist import groups, held
from unstuck.observe.probe import api, frames

_MAIN = threading.main_thread()
_TORCHS = "/distributed_c10d.py"


def answer(group: str) -> dict[str, Any]:
    """Say where this rank is: how far in the group, and in which line."""
    known = groups.of_name(group)
    found = frames.of_thread(_MAIN.ident or 0)
    file, line, doing = _doing(found)
    return {
        "index": known.collectives() if known is not None else -1,
        "runs": [call.words() for call in held.runs(group)],
        "torch": _torchs_own(known.pg) if known is not None else "",
        "doing": doing,
        "file": file,
        "line": line,
        "gave_up": held.announced(group),
    }


def _torchs_own(pg: Any) -> str:
    """Return which of torch's own operations the main thread is in on a group; empty: none."""
    frame = sys._current_frames().get(_MAIN.ident or 0)
    while frame is not None and not frame.f_code.co_filename.endswith(_TORCHS):
        frame = frame.f_back
    if frame is None:
        return ""
    meant = frame.f_locals.get("group")
    return frame.f_code.co_name if (meant or c10d.group.WORLD) is pg else ""


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
        words.insert(0, f"waits in {call.words()} on group {call.group.name!r},")
    section = _section()
    if section:
        words.insert(0, f"in section {section!r},")
    return str(file), int(line), " ".join(words)


def _section() -> str:
    """Return the innermost open section, wherever this version of the probe keeps it."""
    kept: Any = sys.modules.get("unstuck.observe.probe.current")
    current = getattr(kept, "current", None) or getattr(api, "_current", None)
    open_sections = list(getattr(current, "open", ()))
    return str(open_sections[-1].name) if open_sections else ""


@cache
def machine() -> str:
    """Name this machine and process namespace: within one, /proc tells of the other ranks."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def started(pid: int) -> str:
    """Return when a process started, in the kernel's ticks; empty: there is none."""
    fields = _stat(pid)
    return fields[19] if fields else ""


def state_of(record: dict[str, Any]) -> tuple[str, str]:
    """Return (`running`, `stopped`, `gone` or empty, words) of a rank on this machine."""
    if not machine() or record.get("machine") != machine():
        return "", ""
    pid = int(record["pid"])
    fields = _stat(pid)
    if not fields or fields[19] != record["started"] or fields[0] in "ZX":
        return "gone", f"gone, its process {pid} has ended"
    if fields[0] in "Tt":
        return "stopped", f"stopped, as by SIGSTOP (process {pid})"
    return "running", f"process {pid} lives (state {fields[0]}) but its Python does not answer"


def _stat(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []
