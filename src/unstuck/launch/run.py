"""`unstuck run`, step by step."""

import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Thread

import msgspec

import unstuck
from unstuck.act import controls
from unstuck.act.instructions import Instructions
from unstuck.act.policy import Policy
from unstuck.console import say
from unstuck.launch import checkup, leftovers, rundir
from unstuck.launch.command import LaunchCommand, understand
from unstuck.launch.hubplace import find
from unstuck.launch.supervise import Supervisor
from unstuck.launch.token import HOW_TO_SHARE
from unstuck.launch.watchers import Watchers
from unstuck.launch.webpage import WebPage, open_page, say_link
from unstuck.model.action import Action
from unstuck.observe.probe import lineage, presumed

_PACKAGE = Path(unstuck.__file__).parent
_SITE = _PACKAGE / "observe" / "probe" / "site"


def run(  # noqa: PLR0913 - one argument per option
    argv: Sequence[str],
    *,
    run_dir: Path | None = None,
    name: str | None = None,
    hub: str | None = None,
    as_json: bool = False,
    policy: Policy | None = None,
    respawn: int = 0,
    patience: float | None = None,
    token_file: Path | None = None,
    web: str | None = None,
    no_web: bool = False,
) -> int:
    """Run a launch command under watch and return its exit code.

    The page is served at `web` (`HOST:PORT`), else on a free port of the loopback interface.
    A `policy` that acts may end it with one of the exit codes 80-89. A rank that dies in a
    training with `@unstuck.resilient` is restarted alone, up to `respawn` times. A `patience` in
    seconds replaces what is learned from the job.
    Nodes that share a `token_file` trust each other; without a secret a job of several nodes
    is only watched.

    Example:
        run(["torchrun", "--nproc-per-node=4", "train.py"], run_dir=Path("out"))
    """
    command = understand(argv, os.environ)
    host = socket.gethostname()
    directory = rundir.create(run_dir, name or command.name)
    place = find(command, hub, os.environ, token_file)
    # The page belongs beside the hub: on one node of the job.
    page = open_page(web) if place.listener is not None and not no_web else None
    live = rundir.LiveDirectory(directory, host)
    try:
        if policy is not None and not place.may_act:
            say(f"watching only: to act on this job its nodes need a secret: {HOW_TO_SHARE}")
            policy = None
        recovery = _write_recovery(live.path, command, policy) if policy else None
        if patience:
            controls.begin_with(directory, patience)
        watchers = Watchers(
            directory,
            live.path,
            host,
            place,
            command.argv,
            nodes=command.nodes,
            as_json=as_json,
            recovery=recovery,
            page=page,
        )
        env = environment(os.environ, live.path, obeys=recovery is not None, respawn=respawn)
        env |= {presumed.VARIABLE: command.task} if command.task else {}
        greet = partial(_greet, place.stores_in(directory), page, argv)
        return Supervisor(command, env, watchers, greet).run()
    finally:
        if page is not None:
            page.end()
        live.remove()
        place.close()


def _greet(place: str, page: WebPage | None, argv: Sequence[str]) -> None:
    """Say that the job is watched and where, and check its timeouts in the background."""
    say(f"watching; incidents go to {place}")
    if page is not None:
        say_link(page)
    Thread(target=checkup.report, args=(argv, dict(os.environ)), daemon=True).start()


def _write_recovery(live: Path, command: LaunchCommand, policy: Policy) -> Path | None:
    """Write down for the hub what may be done; None where nothing may."""
    if not policy.acts and not policy.has(Action.NOTIFY):
        return None
    path = live / "recovery.json"
    recovery = Instructions(secrets.token_hex(8), policy, command.max_restarts, command.nodes or 1)
    path.write_bytes(msgspec.json.encode(recovery))
    return path


def environment(
    base: Mapping[str, str], live: Path, *, obeys: bool = False, respawn: int = 0
) -> dict[str, str]:
    """Return the environment of the job: the probe first on PYTHONPATH, restarts that work."""
    path = base.get("PYTHONPATH")
    env = {
        **base,
        "PYTHONPATH": f"{_SITE}{os.pathsep}{path}" if path else str(_SITE),
        "UNSTUCK_LIVE_DIR": str(live),
        "UNSTUCK_PACKAGE": str(_PACKAGE),
        leftovers.MARK: secrets.token_hex(8),
    }
    # All but the first: where this job is started inside a rank of another one.
    within = (lineage.PROBED, lineage.WITHIN, lineage.JOINED, presumed.VARIABLE)
    for name in ("UNSTUCK_TOKEN", *within):
        env.pop(name, None)
    # Without a policy that acts the ranks do not listen for orders at all.
    env["UNSTUCK_OBEY"] = "1" if obeys else "0"
    if respawn:
        env["UNSTUCK_RESPAWN"] = str(respawn)
    # Without it, restarted ranks read the addresses the previous attempt left in the store.
    env.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    return env
