"""Put first on PYTHONPATH by `unstuck run`: starts the probe when torch.distributed is imported.

Python imports one `sitecustomize` only, so this one runs the user's own afterwards.
Nothing here may raise into, or slow down, a process that never imports torch.
"""

import importlib.machinery
import importlib.util
import os
import sys

TYPE_CHECKING = False  # typing itself takes milliseconds that every process would pay
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType

HERE = os.path.dirname(os.path.abspath(__file__))
WATCHED = "torch.distributed.distributed_c10d"
IDENTITY = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT", "TORCHELASTIC_RUN_ID")
LAUNCHERS = (
    "torchrun", "accelerate", "deepspeed", "torch.distributed.run", "torch.distributed.launch",
    "accelerate.commands.launch", "deepspeed.launcher.launch", "deepspeed.launcher.runner",
)  # fmt: skip
"""Scripts and modules that start ranks."""


class _Loader:
    """Runs the module's own loader, then starts the probe."""

    def __init__(self, inner: "Loader") -> None:
        self.inner = inner

    def create_module(self, spec: "ModuleSpec") -> "ModuleType | None":
        return self.inner.create_module(spec)

    def exec_module(self, module: "ModuleType") -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self.inner
        self.inner.exec_module(module)
        _start_probe(module)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


class _Finder:
    """Finds one module once, through the ordinary path search."""

    def find_spec(
        self,
        name: str,
        path: "Sequence[str] | None" = None,
        target: "ModuleType | None" = None,
    ) -> "ModuleSpec | None":
        """Return the spec of torch's module with our loader around its own."""
        if name != WATCHED:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment] - it acts as one
        return spec


def _start_probe(module: "ModuleType") -> None:
    try:
        _make_importable()
        from unstuck.script.start import start

        start(module, launched=not _is_launcher())
    except BaseException as error:
        _complain(error)


def _make_importable() -> None:
    """Load `unstuck` from where `unstuck run` lives if this interpreter does not have it."""
    if importlib.util.find_spec("unstuck") is not None:
        return
    package = os.environ["UNSTUCK_PACKAGE"]
    spec = importlib.util.spec_from_file_location(
        "unstuck", os.path.join(package, "__init__.py"), submodule_search_locations=[package]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"unstuck is not at {package}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["unstuck"] = module
    spec.loader.exec_module(module)


def _complain(error: BaseException) -> None:
    """Leave the reason for the agent, which says that this rank is unobserved and why."""
    try:
        name = f"rank-{os.environ.get('RANK', 'x')}.{os.getpid()}.problem"
        with open(os.path.join(os.environ["UNSTUCK_LIVE_DIR"], name), "w") as file:
            file.write(f"{type(error).__name__}: {error}")
    except Exception:
        return


def _is_launcher() -> bool:
    """Tell whether this process gives out ranks: a pod may give RANK to the launcher itself."""
    words = sys.orig_argv[1:4]
    return any(os.path.basename(word) in LAUNCHERS for word in words)


def _identity() -> str:
    """Return what a launcher gave this process; see `observe/probe/lineage.py`."""
    return "/".join(os.environ.get(name, "") for name in IDENTITY)


def _belongs_to_this_job() -> bool:
    """Tell whether no rank of this job has started another job, to which this process belongs."""
    pid, _, theirs = os.environ.get("UNSTUCK_WITHIN", "").partition(":")
    return pid in ("", str(os.getpid())) or theirs == _identity()


def _announce() -> None:
    """Leave a sign that this rank's process runs: importing torch takes long, or never ends.

    What it starts itself inherits its number, and is told here whose it is.
    """
    rank = os.environ.get("RANK", "")
    if not rank.isdigit() or os.environ.get("UNSTUCK_PROBED") == rank or _is_launcher():
        return
    if os.environ.get("LOCAL_RANK"):
        mine = f"{os.getpid()}:{_identity()}"
        if os.environ.setdefault("UNSTUCK_WITHIN", mine) != mine:
            return
    try:
        name = f"rank-{rank}.{os.getpid()}.born"
        os.close(os.open(os.path.join(os.environ["UNSTUCK_LIVE_DIR"], name), os.O_CREAT, 0o600))
    except OSError:
        return


def _guard() -> None:
    """Put a parent before this rank that starts it again, where `unstuck run --respawn` says so."""
    times = os.environ.get("UNSTUCK_RESPAWN", "")
    if not times.isdigit() or not os.environ.get("RANK", "").isdigit():
        return
    try:
        _make_importable()
        from unstuck.script.respawn import stand_before
    except Exception as error:
        _complain(error)
        return
    stand_before(int(times))


def _run_the_users_own() -> None:
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if "UNSTUCK_LIVE_DIR" in os.environ and _belongs_to_this_job():
    _guard()
    _announce()
    sys.meta_path.insert(0, _Finder())
_run_the_users_own()
