"""The process that `unstuck.watch()` starts beside the ranks of a node.

It does what `unstuck run` does around a job, but without the job: it starts the agent and,
where the hub belongs here, the hub; restarts them when they die; and ends with the ranks.
"""

import argparse
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from unstuck.clock import SYSTEM, Clock
from unstuck.console import say
from unstuck.errors import UnstuckError
from unstuck.launch import rundir
from unstuck.launch.command import LaunchCommand
from unstuck.launch.hubplace import find
from unstuck.launch.leftovers import lives
from unstuck.launch.watchers import Watchers
from unstuck.observe.probe.page import PageReader
from unstuck.script.watch import LOCK

_CHECK_EVERY = 0.25
_START_WITHIN = 60.0
"""A rank that asked for us has a page once it has imported torch."""
_BACK_WITHIN = 10.0
"""Where ranks did not leave in order, their launcher may restart them."""
_LEFT = 0.5


def describe(script: str, env: Mapping[str, str]) -> LaunchCommand:
    """Read from the environment of a rank what a launch command would say about the job."""
    world, local = env.get("WORLD_SIZE", "1"), env.get("LOCAL_WORLD_SIZE", "")
    master = env.get("MASTER_ADDR", "")
    if local.isdigit() and world.isdigit():
        several = int(world) > int(local)
    else:
        several = env.get("SLURM_NNODES", "1") != "1"
    ids = (env.get(name, "") for name in ("MASTER_PORT", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"))
    return LaunchCommand(
        argv=("python", script),
        name=Path(script).stem or "job",
        several_nodes=several,
        node_rank=None,
        master=master,
        job=f"{master}|{'|'.join(ids)}",
    )


class Beside:
    """The agent and hub of a node for as long as ranks live."""

    def __init__(self, live: Path, watchers: Watchers, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._live = live
        self._watchers = watchers
        self._seen = clock.monotonic() + _START_WITHIN
        self._left = False
        """All ranks had left in order when their pages were last there."""

    def run(self) -> None:
        """Watch until the last rank has been gone for long enough."""
        signal.signal(signal.SIGTERM, self._stop)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self._watchers.start()
        while self._goes_on(self._clock.monotonic()):
            self._clock.sleep(_CHECK_EVERY)
            self._watchers.check()
        self._watchers.finish()

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        """Deaths are expected when somebody ends the job."""
        self._watchers.send("stopping")

    def _goes_on(self, now: float) -> bool:
        pages = list(self._live.glob("rank-*.page"))
        if any(lives(_pid(page)) for page in pages):
            self._seen = now
        # An agent whose parent was killed removes the pages of its ranks when these have ended.
        if pages:
            self._left = all(_phase(page) == "exit" for page in pages)
        return now - self._seen < (_LEFT if self._left else _BACK_WITHIN)


def _pid(page: Path) -> int:
    return int(page.name.split(".")[1])


def _phase(page: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        reader = PageReader(str(page))
        try:
            return str(reader.read().report.get("phase", ""))
        finally:
            reader.close()
    return ""


def main() -> int:
    """Watch the ranks of one node that asked for it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--live", type=Path, required=True)
    parser.add_argument("--lock", type=int, required=True)
    parser.add_argument("--script", required=True)
    parser.add_argument("--hub")
    parser.add_argument("--run-dir", type=Path)
    options = parser.parse_args()
    # Whoever holds the lock is the one process of this node: not agent and hub after its death.
    os.set_inheritable(options.lock, False)  # noqa: FBT003 - it has no name
    _clear(options.live)
    try:
        _run(options)
    except UnstuckError as error:
        say(f"{error.message}; the job continues, unwatched. {error.hint}".strip())
        return error.exit_code
    finally:
        _clear(options.live, everything=True)
    return 0


def _run(options: argparse.Namespace) -> None:
    command = describe(options.script, os.environ)
    host = socket.gethostname()
    place = find(command, options.hub, os.environ)
    directory = rundir.create(options.run_dir, command.name)
    watchers = Watchers(directory, options.live, host, place, command.argv)
    say(f"watching; incidents go to {place.stores_in(directory)}")
    try:
        Beside(options.live, watchers).run()
    finally:
        place.close()


def _clear(live: Path, *, everything: bool = False) -> None:
    """Delete what ranks left that are gone; `everything`: all of it, if none is left."""
    for page in live.glob("rank-*.page"):
        if not lives(_pid(page)):
            for file in live.glob(f"{page.name.removesuffix('.page')}.*"):
                file.unlink(missing_ok=True)
    if everything and not list(live.glob("rank-*.page")):
        for file in (*live.glob("rank-*"), *live.glob("agent.*"), live / LOCK):
            file.unlink(missing_ok=True)
        # Not with what a rank may have put there just now.
        with contextlib.suppress(OSError):
            live.rmdir()


if __name__ == "__main__":
    sys.exit(main())
