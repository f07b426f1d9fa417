"""`unstuck.watch()`: be watched without `unstuck run`.

The first rank of a node that calls it starts one process beside the ranks, which runs the
node's agent and, at the node of the rendezvous address, the job's hub. The others find it: all
meet in a directory in memory whose name follows from the job. Nothing of it uses the process
groups or the store of the training.
"""

import contextlib
import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from unstuck.observe.probe import link
from unstuck.observe.probe.this_process import rank_text
from unstuck.script import callbacks
from unstuck.script.deadlines import tell

__all__ = ["watch"]

LOCK = "lock"
_LOOK_EVERY = 3.0
_MEMORY = "/dev/shm"  # noqa: S108 - the directory in it is this user's own, which is checked


class _Beside:
    process: "subprocess.Popen[bytes] | None" = None
    keeper: threading.Thread | None = None
    probed = False


def watch(
    *,
    hub: str | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    on_silent: Callable[[callbacks.Peer], object] | None = None,
    on_back: Callable[[callbacks.Peer], object] | None = None,
) -> bool:
    """Watch this job from inside the script; call it in every rank, at the beginning.

    Verdicts are written to stderr and to the run directory, as with `unstuck run`, under which this
    only registers the callbacks. `hub` is HOST[:PORT] of the node where
    the hub is to be, in a job of several nodes; by default MASTER_ADDR and port 29529. Returns
    False, with the reason on stderr, where that is not possible; the training continues.

    Example:
        import unstuck
        unstuck.watch(on_silent=lambda peer: print(f"rank {peer.rank} is {peer.state}"))
    """
    if on_silent is not None:
        callbacks.on_silent(on_silent)
    if on_back is not None:
        callbacks.on_back(on_back)
    try:
        if link.address() is None:
            os.environ["UNSTUCK_LIVE_DIR"] = _live_directory()
            os.environ["UNSTUCK_WATCH"] = "1"
        if os.environ.get("UNSTUCK_WATCH") == "1" and not _Beside.probed:
            _Beside.probed = True
            _start_beside(hub, run_dir)
            _start_probe()
            _keep(hub, run_dir)
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        tell(f"{rank_text()}cannot be watched ({what}); the training continues")
        return False
    return True


def _live_directory() -> str:
    """Make or find the directory of this job and node."""
    env = os.environ
    names = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID")
    job = [env.get(name, "") for name in names]
    # Network namespaces of one machine are nodes of their own.
    with contextlib.suppress(OSError):
        job.append(os.readlink("/proc/self/ns/net"))
    if not env.get("MASTER_PORT"):
        job.append(str(os.getpid()))
    key = sha256("|".join([*job, os.uname().nodename]).encode()).hexdigest()[:16]
    parent = _MEMORY if os.access(_MEMORY, os.W_OK) else "/tmp"  # noqa: S108 - as above
    path = os.path.join(parent, f"unstuck-{os.getuid()}-{key}")
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    found = os.lstat(path)
    if found.st_uid != os.getuid() or found.st_mode & 0o170777 != 0o040700:
        raise PermissionError(f"{path} is not a private directory of this user")
    return path


def _start_beside(hub: str | None, run_dir: Any) -> None:
    """Start the process beside the ranks, unless it runs: who runs holds the lock."""
    live = os.environ["UNSTUCK_LIVE_DIR"]
    lock = os.open(os.path.join(live, LOCK), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        package = os.path.dirname(os.path.dirname(sys.modules["unstuck"].__file__ or ""))
        env = {**os.environ, "PYTHONPATH": _first(package, os.environ.get("PYTHONPATH"))}
        command = [sys.executable, "-m", "unstuck.launch.beside", "--live", live]
        command += ["--lock", str(lock), "--script", sys.argv[0] or "job"]
        command += ["--hub", hub] if hub else []
        command += ["--run-dir", os.fspath(run_dir)] if run_dir else []
        # A session of its own: Ctrl-C in the terminal is for the job, and it outlives this rank.
        _Beside.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, env=env, pass_fds=(lock,), start_new_session=True
        )
    except BlockingIOError:
        return
    finally:
        os.close(lock)


def _first(package: str, path: str | None) -> str:
    return f"{package}{os.pathsep}{path}" if path else package


def _start_probe() -> None:
    """Do what `unstuck run` has done when torch.distributed is imported."""
    import torch.distributed.distributed_c10d as c10d

    from unstuck.script import start

    names = ("init_process_group", "destroy_process_group")
    before = {name: getattr(c10d, name) for name in names}
    start.start(c10d)
    public: Any = sys.modules["torch.distributed"]
    for name, original in before.items():
        # It has taken these names over from the module before they were replaced there.
        if getattr(public, name, None) is original:
            setattr(public, name, getattr(c10d, name))
    if c10d.is_initialized():
        start.after_init(c10d)


def _keep(hub: str | None, run_dir: Any) -> None:
    """Start the process again, from a helper thread, when it has been killed."""

    def look() -> None:
        while True:
            time.sleep(_LOOK_EVERY)
            if _Beside.process is not None and _Beside.process.poll() is not None:
                _Beside.process = None
            with contextlib.suppress(Exception):
                _start_beside(hub, run_dir)

    _Beside.keeper = threading.Thread(target=look, name="unstuck watch", daemon=True)
    _Beside.keeper.start()
