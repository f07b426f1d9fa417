"""Understand a launch command as far as watching needs it: how many nodes, which is first."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from unstuck.errors import UserError
from unstuck.launch import tasks
from unstuck.launch.tasks import Task
from unstuck.observe.timeouts.launch_options import option, python_script, split, torchrun_arguments

_TORCHRUN_GRACE = 30.0


class LaunchCommand(NamedTuple):
    """What a launch command says about the job."""

    argv: tuple[str, ...]
    name: str
    """Of the script or module, for the run directory."""
    several_nodes: bool
    node_rank: int | None
    master: str
    """Host of the rendezvous, if the command or the environment names one."""
    job: str
    """What tells this job from another one with the same rendezvous host."""
    max_restarts: int | None = None
    """How often the launcher restarts its ranks; None: it never does."""
    nodes: int = 0
    """How many nodes the launcher waits for before it starts a rank; 0 if it does not wait."""
    port: int = 0
    """Where the hub listens, if the job says so; 0: at the usual port."""
    task: str = ""
    """`rank/size` where every rank is started by an `unstuck run` of its own."""
    grace: float = _TORCHRUN_GRACE
    """Seconds that ranks get to end after SIGTERM; torchrun kills them then."""


def understand(argv: Sequence[str], env: Mapping[str, str]) -> LaunchCommand:
    """Read the command line of torchrun or python, and the variables other launchers set.

    Raises:
        UserError: the script it names does not exist.

    Example:
        >>> understand(["torchrun", "--nnodes=2", "-m", "pkg.train"], {}).several_nodes
        True
    """
    arguments = torchrun_arguments(argv)
    if arguments is None:
        return _plain(argv, env)
    options, rest = split(arguments)
    module = "-m" in options or "--module" in options
    _check_script(rest, is_file=not module and "--no-python" not in options)
    endpoint = option(options, env, "--rdzv-endpoint") or ""
    master = endpoint.rpartition(":")[0] or endpoint or option(options, env, "--master-addr") or ""
    node_rank = option(options, env, "--node-rank")
    nodes = option(options, env, "--nnodes") or "1"
    return LaunchCommand(
        argv=tuple(argv),
        name=_name(rest),
        several_nodes="--standalone" not in options and nodes.rpartition(":")[2] != "1",
        node_rank=int(node_rank) if node_rank and node_rank.isdigit() else None,
        master=master,
        job=_job(options, env),
        nodes=_fewest(nodes),
        max_restarts=_number(option(options, env, "--max-restarts")),
        grace=_grace(options, env),
    )


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


def _grace(options: Mapping[str, str], env: Mapping[str, str]) -> float:
    said = option(options, env, "--shutdown-timeout")
    text = said or env.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "")
    return float(text) if text.isdigit() else _TORCHRUN_GRACE


def _fewest(nodes: str) -> int:
    """Read the lower end of `--nnodes`: `2`, or `2:4`."""
    lowest = nodes.partition(":")[0]
    return int(lowest) if lowest.isdigit() else 0


def _job(options: Mapping[str, str], env: Mapping[str, str]) -> str:
    names = ("--rdzv-endpoint", "--rdzv-id", "--master-addr", "--master-port")
    parts = [option(options, env, name) or "" for name in names]
    return "|".join([*parts, env.get("SLURM_JOB_ID", "")])


def _plain(argv: Sequence[str], env: Mapping[str, str]) -> LaunchCommand:
    """Any other command. RANK and WORLD_SIZE say that somebody else's launcher started it."""
    script = python_script(argv)
    _check_script(script, is_file=bool(script) and script[0].endswith(".py"))
    task = None if "RANK" in env else tasks.read(env)
    if task is not None:
        return _one_of(task, argv, _name(script or argv), env)
    world = env.get("WORLD_SIZE", "1") if "RANK" in env else "1"
    master = env.get("MASTER_ADDR", "")
    return LaunchCommand(
        argv=tuple(argv),
        name=_name(script or argv),
        several_nodes=world.isdigit() and int(world) > 1,
        node_rank=None,
        master=master,
        job=f"{master}:{env.get('MASTER_PORT', '')}|{env.get('SLURM_JOB_ID', '')}",
    )


def _one_of(task: Task, argv: Sequence[str], name: str, env: Mapping[str, str]) -> LaunchCommand:
    """One rank of several, which mpirun or srun start under an `unstuck run` each."""
    first = env.get("MASTER_ADDR") or task.first_host
    return LaunchCommand(
        argv=tuple(argv),
        name=name,
        several_nodes=True,
        node_rank=None,
        master=first if task.several_nodes else "127.0.0.1",
        job=task.job,
        port=0 if task.several_nodes else task.port,
        task=f"{task.rank}/{task.size}",
    )


def _check_script(rest: Sequence[str], *, is_file: bool) -> None:
    if is_file and rest and not Path(rest[0]).exists():
        raise UserError(
            f"there is no script {rest[0]} here", hint=f"check the path; this is {Path.cwd()}"
        )


def _name(rest: Sequence[str]) -> str:
    stem = Path(rest[0]).name.removesuffix(".py").removesuffix(".sh") if rest else "job"
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in stem)[:40] or "job"
