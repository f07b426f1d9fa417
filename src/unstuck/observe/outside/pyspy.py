"""Stacks of a process that did not prepare for it, read by py-spy from outside.

py-spy copies memory of the process and does not stop it (`--nonblocking`), so it also works on a
stopped one and a look costs the job nothing. It may read a stack while it changes; one of a rank
that hangs does not change. Reading another process's memory takes the right to trace it.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from unstuck.model.rank import CodeLine

_WITHIN = 20.0
_ARGUMENTS = ("group", "src", "dst", "tag")
_MOST_VALUE = 80
_DISTRIBUTED = "/distributed_c10d.py"
_LOGGER = "/c10d_logger.py"
_SCOPE = "/proc/sys/kernel/yama/ptrace_scope"


class ThreadStack(Struct, frozen=True):
    """One Python thread."""

    id: int
    """Of the operating system."""
    name: str
    frames: tuple[CodeLine, ...]
    """Innermost first."""
    holds_gil: bool = False
    arguments: dict[str, str] = {}
    """What the call of torch.distributed that it is in was given: group, src, dst, tag."""


class Stacks(Struct, frozen=True):
    """All Python threads of one process, or why they cannot be read."""

    threads: tuple[ThreadStack, ...] = ()
    problem: str = ""
    hint: str = ""
    """The command that would allow it."""

    def main(self, pid: int) -> ThreadStack | None:
        """Return the main thread, if it was read."""
        return next((one for one in self.threads if one.id == pid), None)


class _Local(Struct):
    name: str
    repr: str | None = None


class _Frame(Struct):
    name: str
    filename: str
    line: int = 0
    locals: list[_Local] | None = None


class _Thread(Struct):
    frames: list[_Frame]
    os_thread_id: int | None = None
    thread_name: str | None = None
    owns_gil: bool = False


def program() -> str:
    """Return the path of py-spy: beside this Python, or on the PATH; empty if there is none."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy") or ""


def take(pid: int, *, native: bool = False) -> Stacks:
    """Read the stacks of all Python threads of a process.

    With `native` the frames of C++ are among them, for which the process is stopped for some
    hundred milliseconds.

    Example:
        take(4711).main(4711)
    """
    found = program()
    if not found:
        return Stacks(problem="py-spy is not installed", hint="pip install 'unstuck[stacks]'")
    how = ["--native"] if native else ["--nonblocking"]
    command = [found, "dump", "--json", "--locals", *how, "--pid", str(pid)]
    try:
        # Never killed while it holds a process: without --nonblocking it would stay stopped.
        done = subprocess.run(
            command, capture_output=True, check=False, timeout=None if native else _WITHIN
        )
    except subprocess.TimeoutExpired:
        return Stacks(problem=f"py-spy gave no answer within {_WITHIN:.0f} s")
    except OSError as error:
        return Stacks(problem=f"py-spy cannot be started: {error.strerror}")
    if done.returncode:
        return _refused(pid, done.stderr.decode(errors="replace"))
    try:
        threads = msgspec.json.decode(done.stdout, type=list[_Thread])
    except msgspec.MsgspecError as error:
        return Stacks(problem=f"what py-spy says cannot be understood: {error}")
    return Stacks(tuple(map(_thread, threads)))


def _refused(pid: int, said: str) -> Stacks:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if not os.path.exists(f"/proc/{pid}"):
        return Stacks(problem="the process has ended")
    if re.search(r"permission denied|operation not permitted|EPERM", said, re.IGNORECASE):
        why = "its memory may not be read: ptrace is not allowed"
        return Stacks(problem=why, hint=_permit(pid))
    last = next((line for line in reversed(lines) if not line.startswith("Reason")), "no reason")
    return Stacks(problem=f"py-spy cannot read it: {last.removeprefix('Error: ')[:200]}")


def _permit(pid: int) -> str:
    try:
        scope = int(Path(_SCOPE).read_text())
    except (OSError, ValueError):
        scope = 0
    if os.geteuid() == 0:
        return "start the container with --cap-add SYS_PTRACE (Kubernetes: capabilities.add)"
    if scope == 1:
        return f"sudo unstuck attach {pid}, or: sudo sysctl kernel.yama.ptrace_scope=0"
    return f"sudo unstuck attach {pid}"


def _thread(one: _Thread) -> ThreadStack:
    return ThreadStack(
        id=one.os_thread_id or 0,
        name=one.thread_name or "",
        frames=tuple(
            CodeLine(frame.filename, frame.line, frame.name.rpartition(".")[2])
            for frame in one.frames
        ),
        holds_gil=one.owns_gil,
        arguments=_arguments(one.frames),
    )


def _arguments(frames: list[_Frame]) -> dict[str, str]:
    """Read what torch.distributed was given; no other variables of the script are looked at."""
    found: dict[str, str] = {}
    for frame in frames:
        values = {one.name: one.repr or "" for one in frame.locals or []}
        if frame.filename.endswith(_DISTRIBUTED):
            for name in _ARGUMENTS:
                if name in values:
                    found.setdefault(name, values[name][:_MOST_VALUE])
        elif found and frame.filename.endswith(_LOGGER):
            given = f"{values.get('args', '')} {values.get('kwargs', '')}"
            # As called: inside the function, the default group has been filled in.
            found["group"] = "given" if _names_group(given) else "default"
        elif found:
            break
    return found


def _names_group(given: str) -> bool:
    # A text that py-spy cut short may have it in the rest.
    return "ProcessGroup" in given or '"group"' in given or "..." in given
