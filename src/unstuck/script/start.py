"""Start the probe in a rank: the page, the helper thread, torch's own C++ server, the hooks."""
# pyright: basic

import contextlib
import ctypes
import faulthandler
import functools
import inspect
import os
import signal
import sys
import threading
import time
from typing import Any

from unstuck.observe.probe import frames, lineage, own_timeouts, presumed
from unstuck.observe.probe.beat import Beat
from unstuck.observe.probe.calls import recording
from unstuck.observe.probe.calls.p2p import PointToPointLog
from unstuck.observe.probe.groups import Groups
from unstuck.observe.probe.page import PageWriter
from unstuck.observe.probe.this_process import current
from unstuck.script import api, on_stall
from unstuck.script.deadlines import watcher

STACK_SIGNAL = signal.SIGRTMIN + 5
"""Free in torch, CUDA, Slurm and the usual launchers; a process that has not said on its page
that it listens is never sent it."""
CRASH_SIGNALS = (signal.SIGSEGV, signal.SIGFPE, signal.SIGABRT, signal.SIGBUS, signal.SIGILL)


class Probe:
    """Everything the probe holds in one rank; kept alive for the life of the process."""

    beat: Beat | None = None
    log: PointToPointLog
    groups: Groups
    presumed = False
    """Its rank is known from its launcher, and not yet from the script."""
    kept: list[Any]


_probe = Probe()
_probe.kept = []


def start(c10d: Any, *, launched: bool = True) -> None:
    """Called once, right after torch.distributed was imported, before the script continues.

    A process that was given RANK and is no helper of one (see `lineage`) is a rank and is watched
    from here on; another one is watched from the moment it calls `init_process_group`.
    `launched`: RANK was given to this process, and not only to the launcher that it is.
    """
    _probe.log = PointToPointLog()
    _patch_init(c10d)
    _patch_destroy(c10d)
    _give_each_attempt_its_own_store()
    if not launched:
        return
    if "RANK" not in os.environ:
        _presume(c10d)
    elif not lineage.belongs_to_a_watched_rank() and not lineage.is_inside_another():
        _observe(c10d, int(os.environ["RANK"]), int(os.environ.get("WORLD_SIZE", "0")))


def _presume(c10d: Any) -> None:
    """Observe a rank that knows its number only later, by what its launcher calls it."""

    def spawned(index: int) -> None:
        if "RANK" not in os.environ and lineage.PROBED not in os.environ:
            _observe(c10d, index, 0)
            _probe.presumed = True

    presumed.in_spawned_children(spawned)
    if (task := presumed.by_launcher(os.environ)) and lineage.PROBED not in os.environ:
        _observe(c10d, *task)
        _probe.presumed = True


def _observe(c10d: Any, rank: int, world_size: int) -> None:
    if _probe.beat is not None:
        return
    path = os.path.join(os.environ["UNSTUCK_LIVE_DIR"], f"rank-{rank}.{os.getpid()}")
    page = PageWriter(f"{path}.page")
    groups = _probe.groups = Groups(c10d, _probe.log)
    about = _about(rank, world_size)
    stacks, about["stack_signal"] = _listen_for_stacks(path)
    about["server"] = _serve(c10d, path)
    about["top"] = lineage.top()
    beat = _probe.beat = Beat(page, path, groups, _probe.log, about)
    beat.stacks = stacks
    beat.top = about["top"]
    beat.more = on_stall.report
    os.environ[lineage.PROBED] = str(rank)
    lineage.claim()
    watcher.before_abort = beat.ending.note_overdue
    beat.ending.install()
    current.attach(page)
    beat.start()
    on_stall.attach()


def _about(rank: int, world_size: int) -> dict[str, Any]:
    env = os.environ
    restarts = env.get("TORCHELASTIC_RESTART_COUNT", "0")
    # Restart counts differ between nodes, the rendezvous address does not; on one node the
    # address may stay the same while the count goes up.
    attempt = f"{env.get('MASTER_ADDR', '')}:{env.get('MASTER_PORT', '')}"
    if env.get("GROUP_WORLD_SIZE", "1") == "1":
        attempt += f"/{restarts}"
    return {
        "pid": os.getpid(),
        "rank": rank,
        "world_size": world_size,
        "local_rank": int(env.get("LOCAL_RANK", "0")),
        "attempt": attempt,
        "restarts": int(restarts),
        "store": "launcher" if env.get("TORCHELASTIC_USE_AGENT_STORE") == "True" else "rank 0",
        "error_file": env.get("TORCHELASTIC_ERROR_FILE", ""),
        "main_thread": threading.main_thread().ident,
        "started": time.monotonic(),
    }


def _listen_for_stacks(path: str) -> tuple[int, int]:
    """Open the file for stacks, and let the agent ask by a signal where the GIL is stuck.

    Only for the main thread's own: to read the frames of threads that run may crash the rank.
    A crash leaves its stack in the same file, unless somebody else sees to crashes already.
    """
    file = open(f"{path}.stacks", "w")  # noqa: SIM115 - faulthandler writes to it for ever
    _probe.kept.append(file)
    if not faulthandler.is_enabled() and all(_is_free(number) for number in CRASH_SIGNALS):
        faulthandler.enable(file=file, all_threads=True)
    if not _is_free(STACK_SIGNAL):
        return file.fileno(), 0
    # The interpreter's end puts back what was there before. That must not be the default action:
    # a request that arrives while a rank ends would kill it. (signal.signal: main thread only.)
    ctypes.CDLL(None).signal(int(STACK_SIGNAL), int(signal.SIG_IGN))
    faulthandler.register(STACK_SIGNAL, file=file, all_threads=False, chain=False)
    return file.fileno(), int(STACK_SIGNAL)


def _is_free(number: int) -> bool:
    return signal.getsignal(number) == signal.SIG_DFL


def _serve(c10d: Any, path: str) -> bool:
    """Start torch's C++ server, which answers without the GIL, on a unix socket."""
    server_class = getattr(c10d.torch._C._distributed_c10d, "_WorkerServer", None)
    if server_class is None:
        return False
    with _quiet_logging():
        server = server_class(f"{path}.sock")
    _probe.kept.append(server)
    # Its destructor at interpreter exit prints three warnings; one more reference avoids it.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))
    return True


@contextlib.contextmanager
def _quiet_logging() -> Any:
    """Keep the server's "listening" warning off the user's terminal."""
    try:
        import torch

        library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so"))
        level = ctypes.c_int.in_dll(library, "FLAGS_caffe2_log_level")
    except Exception:
        yield
        return
    before = level.value
    level.value = max(before, 2)
    try:
        yield
    finally:
        level.value = before


def _patch_init(c10d: Any) -> None:
    original = c10d.init_process_group

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            _observe_joining(c10d, inspect.signature(original).bind(*args, **kwargs).arguments)
        if _probe.beat is not None:
            _probe.beat.phase = "init"
            _probe.beat.left = None
            with contextlib.suppress(Exception):
                _note_joining(*args, **kwargs)
        result = original(*args, **kwargs)
        with contextlib.suppress(Exception):
            after_init(c10d)
        return result

    c10d.init_process_group = init_process_group


def _note_joining(
    _backend: Any = None,
    init_method: Any = None,
    _timeout: Any = None,
    world_size: int = -1,
    *_: Any,
    store: Any = None,
    **_more: Any,
) -> None:
    """Say that this process is the rank and no helper below a wrapper, which has its own world."""
    if _probe.beat is None:
        return
    given = store is None and init_method in (None, "env://")
    given = given and str(world_size) in ("-1", os.environ.get("WORLD_SIZE"))
    if given or _probe.beat.top == os.getpid():
        _probe.beat.joined = True
        lineage.claim(joined=True)


def _observe_joining(c10d: Any, given: dict[str, Any]) -> None:
    """Observe a rank that has its number from the script: its wait for the others may not end."""
    env = os.environ
    rank, world = given.get("rank", -1), given.get("world_size", -1)
    rank = int(env.get("RANK", "-1")) if rank < 0 else rank
    world = int(env.get("WORLD_SIZE", "0")) if world < 0 else world
    if rank < 0 or (_probe.beat is None and not lineage.may_join()):
        return
    if _probe.presumed and _probe.beat is not None:
        _probe.beat.is_rank(rank, world)
    _observe(c10d, rank, world)


def after_init(c10d: Any) -> None:
    """Observe a rank whose process groups are there now."""
    if _probe.beat is None and not lineage.may_join():
        return
    try:
        _observe(c10d, c10d.get_rank(), c10d.get_world_size())
        if "gloo" in c10d.get_backend_config():
            _probe.log.install(c10d)
            if _probe.beat is not None:
                _probe.beat.roots.install(c10d)
                if not recording.has_gloo(str(c10d.torch.__version__), os.environ):
                    _probe.groups.calls.install(c10d)
        _count_optimizer_steps()
    except Exception as error:
        if _probe.beat is not None:
            _probe.beat.problem = f"{type(error).__name__}: {error}"
    if _probe.beat is not None:
        _probe.beat.settings = functools.partial(own_timeouts.read, c10d)
        _probe.beat.phase = "run"


def _count_optimizer_steps() -> None:
    from torch.optim.optimizer import register_optimizer_step_post_hook

    _probe.kept.append(register_optimizer_step_post_hook(api.optimizer_stepped))


def _patch_destroy(c10d: Any) -> None:
    original = c10d.destroy_process_group

    @functools.wraps(original)
    def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            _before_destroy(c10d, *args, **kwargs)
        return original(*args, **kwargs)

    c10d.destroy_process_group = destroy_process_group


def _before_destroy(c10d: Any, group: Any = None) -> None:
    """Note how far this rank got, and from where it leaves if it leaves for good."""
    if _probe.beat is None:
        return
    if group is None or group == c10d.GroupMember.WORLD:
        stack = frames.whole_stack(threading.get_ident())
        _probe.beat.left = {"time": time.monotonic(), "stack": stack}
    _probe.beat.look()


def _give_each_attempt_its_own_store() -> None:
    """Make torchrun's restarts work on gloo with the static rendezvous of one node.

    The restarted ranks would read the addresses that the previous attempt left in the
    launcher's store. (The other rendezvous kinds are mended by an environment variable
    that `unstuck run` sets.)
    """
    # Not `from torch.distributed import rendezvous`: that is a function of the same name.
    rendezvous: Any = sys.modules["torch.distributed.rendezvous"]
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if restarts == "0" or os.environ.get("GROUP_WORLD_SIZE") != "1":
        return
    original = getattr(rendezvous, "_create_c10d_store", None)
    if original is None or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return

    @functools.wraps(original)
    def create(*args: Any, **kwargs: Any) -> Any:
        from torch._C._distributed_c10d import PrefixStore

        return PrefixStore(f"attempt_{restarts}", original(*args, **kwargs))

    rendezvous._create_c10d_store = create
