"""Understand a launch command as far as watching needs it: how many nodes, which is first."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from unstuck.errors import UserError

_FLAGS = frozenset(
    {"--standalone", "--no-python", "--run-path", "-m", "--module", "--virtual-local-rank", "-h",
     "--help"}
)  # fmt: skip
"""The options of torchrun that take no value; all others do."""
_PYTHON_FLAGS_WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_LAUNCHER_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch"})


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


def understand(argv: Sequence[str], env: Mapping[str, str]) -> LaunchCommand:
    """Read the command line of torchrun or python, and the variables other launchers set.

    Raises:
        UserError: the script it names does not exist.

    Example:
        >>> understand(["torchrun", "--nnodes=2", "-m", "pkg.train"], {}).several_nodes
        True
    """
    arguments = _torchrun_arguments(argv)
    if arguments is None:
        return _plain(argv, env)
    options, rest = _split(arguments)
    module = "-m" in options or "--module" in options
    _check_script(rest, is_file=not module and "--no-python" not in options)
    endpoint = _option(options, env, "--rdzv-endpoint") or ""
    master = endpoint.rpartition(":")[0] or endpoint or _option(options, env, "--master-addr") or ""
    node_rank = _option(options, env, "--node-rank")
    nodes = _option(options, env, "--nnodes") or "1"
    return LaunchCommand(
        argv=tuple(argv),
        name=_name(rest),
        several_nodes="--standalone" not in options and nodes.rpartition(":")[2] != "1",
        node_rank=int(node_rank) if node_rank and node_rank.isdigit() else None,
        master=master,
        job=_job(options, env),
    )


def _job(options: Mapping[str, str], env: Mapping[str, str]) -> str:
    names = ("--rdzv-endpoint", "--rdzv-id", "--master-addr", "--master-port")
    parts = [_option(options, env, name) or "" for name in names]
    return "|".join([*parts, env.get("SLURM_JOB_ID", "")])


def _plain(argv: Sequence[str], env: Mapping[str, str]) -> LaunchCommand:
    """Any other command. RANK and WORLD_SIZE say that somebody else's launcher started it."""
    script = _python_script(argv)
    _check_script(script, is_file=bool(script) and script[0].endswith(".py"))
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


def _torchrun_arguments(argv: Sequence[str]) -> list[str] | None:
    """Return what follows torchrun, or None when the command is something else."""
    for index, word in enumerate(argv):
        if Path(word).name == "torchrun":
            return list(argv[index + 1 :])
        if word == "-m" and argv[index + 1 : index + 2] and argv[index + 1] in _LAUNCHER_MODULES:
            return list(argv[index + 2 :])
        if word.endswith(".py"):
            return None
    return None


def _split(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Split torchrun's own options from the script and its arguments."""
    options: dict[str, str] = {}
    index = 0
    while index < len(arguments) and arguments[index].startswith("-"):
        name, equals, value = arguments[index].partition("=")
        name = name.replace("_", "-") if name.startswith("--") else name
        index += 1
        if name == "--":
            break
        glued = not name.startswith("--") and len(name) > 2  # -r3
        if not equals and not glued and name not in _FLAGS and index < len(arguments):
            value = arguments[index]
            index += 1
        options[name] = value
    return options, arguments[index:]


def _option(options: Mapping[str, str], env: Mapping[str, str], name: str) -> str | None:
    """An option, else the variable that torchrun reads in its place."""
    return options.get(name) or env.get("PET_" + name[2:].replace("-", "_").upper())


def _python_script(argv: Sequence[str]) -> list[str]:
    """Return the script and its arguments of `python [options] script.py …`; empty for others."""
    if not Path(argv[0]).name.startswith("python"):
        return []
    index = 1
    while index < len(argv) and argv[index].startswith("-"):
        if argv[index] in ("-c", "-m", "-"):
            return list(argv[index + 1 :]) if argv[index] == "-m" else []
        index += 2 if argv[index] in _PYTHON_FLAGS_WITH_VALUE else 1
    return list(argv[index:])


def _check_script(rest: Sequence[str], *, is_file: bool) -> None:
    if is_file and rest and not Path(rest[0]).exists():
        raise UserError(
            f"there is no script {rest[0]} here", hint=f"check the path; this is {Path.cwd()}"
        )


def _name(rest: Sequence[str]) -> str:
    stem = Path(rest[0]).name.removesuffix(".py").removesuffix(".sh") if rest else "job"
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in stem)[:40] or "job"
