"""`unstuck run`, step by step."""

import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import unstuck
from unstuck.console import say
from unstuck.launch import leftovers, rundir
from unstuck.launch.command import understand
from unstuck.launch.hubplace import find
from unstuck.launch.supervise import Supervisor
from unstuck.launch.watchers import Watchers

_PACKAGE = Path(unstuck.__file__).parent
_SITE = _PACKAGE / "observe" / "probe" / "site"


def run(
    argv: Sequence[str],
    *,
    run_dir: Path | None = None,
    name: str | None = None,
    hub: str | None = None,
    as_json: bool = False,
) -> int:
    """Run a launch command under watch and return its exit code.

    Example:
        run(["torchrun", "--nproc-per-node=4", "train.py"], run_dir=Path("out"))
    """
    command = understand(argv, os.environ)
    host = socket.gethostname()
    directory = rundir.create(run_dir, name or command.name)
    place = find(command, hub, os.environ)
    live = rundir.LiveDirectory(directory, host)
    try:
        watchers = Watchers(directory, live.path, host, place, command.argv, as_json=as_json)
        env = environment(os.environ, live.path)
        where = _short(directory) if place.listener else f"the hub at {place.host}:{place.port}"
        greet = partial(say, f"watching; incidents go to {where}")
        return Supervisor(command.argv, env, watchers, greet).run()
    finally:
        live.remove()
        if place.listener is not None:
            place.listener.close()


def _short(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def environment(base: Mapping[str, str], live: Path) -> dict[str, str]:
    """Return the environment of the job: the probe first on PYTHONPATH, restarts that work."""
    path = base.get("PYTHONPATH")
    env = {
        **base,
        "PYTHONPATH": f"{_SITE}{os.pathsep}{path}" if path else str(_SITE),
        "UNSTUCK_LIVE_DIR": str(live),
        "UNSTUCK_PACKAGE": str(_PACKAGE),
        leftovers.MARK: secrets.token_hex(8),
    }
    env.pop("UNSTUCK_TOKEN", None)
    # Without it, restarted ranks read the addresses the previous attempt left in the store.
    env.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    return env
