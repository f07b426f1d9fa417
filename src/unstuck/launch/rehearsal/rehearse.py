"""Start a launch command with our check in the place of its script, and read what the ranks say."""

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from unstuck.clock import SYSTEM, Clock
from unstuck.errors import UsageError, WorldError
from unstuck.launch import command as launch
from unstuck.launch.leftovers import MARK, end_all
from unstuck.launch.rehearsal import rated
from unstuck.launch.rehearsal.program import ALL, FOLDER, UNTIL
from unstuck.model.health import Check, Rating
from unstuck.model.rehearsal import RankReport
from unstuck.observe.timeouts.launch_options import python_script, split, torchrun_arguments

WITHIN = 28.0
"""Seconds for all of it, imports of torch included."""
_PROGRAM = "unstuck.launch.rehearsal.program"
_TAIL = 3
_ENDS_WITHIN = 2.0
"""Seconds for the ranks and the launcher to end."""
_REACH_WITHIN = 3.0


class Rehearsal(Struct, frozen=True):
    """What came of it."""

    checks: tuple[Check, ...]
    whole: bool
    """Every machine is in it; else only this one."""
    seconds: float


def rehearsed(argv: Sequence[str]) -> list[str]:
    """Put our check in the place of the script.

    Raises:
        UsageError: it is not seen where the script is.

    Example:
        >>> rehearsed(["torchrun", "--nnodes", "2", "train.py", "--lr", "1"])
        ['torchrun', '--nnodes', '2', '-m', 'unstuck.launch.rehearsal.program']
    """
    arguments = torchrun_arguments(argv)
    if arguments is not None:
        head = list(argv[: len(argv) - len(arguments)])
        _, rest = split(arguments)
        own = arguments[: len(arguments) - len(rest)]
        flags = ("-m", "--module", "--no-python", "--no_python", "--run-path", "--run_path", "--")
        return [*head, *(word for word in own if word not in flags), "-m", _PROGRAM]
    for index in range(len(argv)):
        if python_script(argv[index:]):
            return [*argv[: index + 1], "-m", _PROGRAM]
    raise UsageError(
        f"cannot see where the script is in: {' '.join(argv)[:100]}",
        hint="give the launch command of torchrun, or one that ends in: python train.py",
    )


def rehearse(
    argv: Sequence[str], env: Mapping[str, str], *, within: float = WITHIN, clock: Clock = SYSTEM
) -> Rehearsal:
    """Run it, and judge what was found.

    Example:
        rehearse(["torchrun", "--nproc-per-node", "4", "train.py"], os.environ).checks
    """
    began = clock.monotonic()
    command = rehearsed(argv)
    mark = f"doctor-{uuid.uuid4().hex}"
    with tempfile.TemporaryDirectory(prefix="unstuck-doctor-") as folder:
        (Path(folder) / UNTIL).write_text(str(began + within - _ENDS_WITHIN))
        own = {**env, FOLDER: folder, MARK: mark, "OMP_NUM_THREADS": "1"}
        said = _run(command, own, Path(folder), mark, within)
        reports, whole = _read(Path(folder))
    checks = rated.rate(reports, max((one.world_size for one in reports), default=0))
    if not reports:
        checks = [*checks, *_not_started(argv, env, said)]
    return Rehearsal(tuple(checks), whole, round(clock.monotonic() - began, 1))


def _run(
    command: Sequence[str], env: Mapping[str, str], folder: Path, mark: str, within: float
) -> list[str]:
    """Run the command until it ends or the time is over; return its last lines."""
    output = folder / "output"
    with output.open("wb") as out:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=dict(env),
                start_new_session=True,
            )
        except OSError as error:
            raise WorldError(f"{command[0]} cannot be started: {error.strerror}") from error
        try:
            process.wait(within)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGTERM)
        finally:
            end_all(mark, {os.getpid()}, grace=1.0)
            process.wait()
    lines = output.read_text(errors="replace").splitlines()
    return [line for line in lines if line.strip()][-_TAIL:]


def _read(folder: Path) -> tuple[list[RankReport], bool]:
    """Read the reports of all machines if they are here, else those of this one."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        found = msgspec.json.decode((folder / ALL).read_bytes(), type=list[RankReport])
        if found:
            return found, True
    files = sorted(folder.glob("rank-*.json"))
    own: list[RankReport] = []
    for file in files:
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            own.append(msgspec.json.decode(file.read_bytes(), type=RankReport))
    return sorted(own, key=lambda one: one.rank), False


def _not_started(argv: Sequence[str], env: Mapping[str, str], said: Sequence[str]) -> list[Check]:
    """Say why no rank has started, as far as it can be seen from here."""
    plan = launch.understand(rehearsed(argv), env)
    found: list[Check] = []
    if plan.several_nodes and plan.master:
        found.append(_rendezvous(plan))
    if said:
        text = " | ".join(" ".join(line.split())[:160] for line in said)
        found.append(Check("launcher", Rating.BAD, f"its last lines: {text}"))
    return found


def _rendezvous(plan: launch.LaunchCommand) -> Check:
    port = next((p for p in plan.job.replace("|", ":").split(":") if p.isdigit()), "29400")
    where = f"{plan.master}:{port}"
    try:
        with socket.create_connection((plan.master, int(port)), timeout=_REACH_WITHIN):
            pass
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        fix = "is it the first machine's address, does the launcher run there, is the port open?"
        return Check("rendezvous", Rating.BAD, f"{where} cannot be reached: {why}", fix)
    text = f"{where} answers, but not all {plan.nodes} machines have arrived there"
    fix = "start the same command on the other machines within the same seconds"
    return Check("rendezvous", Rating.BAD, text, fix)
