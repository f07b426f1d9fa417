"""`unstuck run`: put it in front of any launch command."""

from pathlib import Path

import click

from unstuck.errors import UsageError


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Run a launch command and say why it stalls, if it does.",
)
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where incidents go. [default: runs/<time>-<name>]",
)
@click.option("--name", help="Name of the run. [default: that of the script]")
@click.option(
    "--hub",
    metavar="HOST[:PORT]",
    help="Where the hub of a job with several nodes listens. [default: the rendezvous host]",
)
@click.option(
    "--recover", is_flag=True, help="Act on verdicts; see `unstuck policy show --recover`."
)
@click.option(
    "--on",
    multiple=True,
    metavar="CAUSE=ACTIONS",
    help="What to do about a cause: --on process-crash=report,restart:3. May be repeated.",
)
@click.option(
    "--respawn",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Start a rank of an @unstuck.resilient training that dies again by itself, N times.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where the [policy] table is. [default: unstuck.toml here, if there is one]",
)
@click.option("--json", "as_json", is_flag=True, help="Print verdicts as JSON, one a line.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def run(  # noqa: PLR0913, PLR0917 - one argument an option
    command: tuple[str, ...],
    run_dir: Path | None,
    name: str | None,
    hub: str | None,
    recover: bool,
    on: tuple[str, ...],
    respawn: int,
    config: Path | None,
    as_json: bool,
) -> int:
    """Run a launch command under watch; no change to the script is needed.

    \b
    unstuck run torchrun --nproc-per-node 4 train.py
    unstuck run --run-dir out -- torchrun --nnodes 2 --rdzv-endpoint node0:29400 … train.py
    srun unstuck run python train.py

    Output, input, signals and the exit code are the command's own. Seconds after a stall
    the verdict is on stderr, and everything it was made from in the run directory.

    With --recover or --on it also acts, and may end the command with an exit code from 80
    to 86 that tells a scheduler what to do next: see docs/recovery.md.
    """
    argv = command[1:] if command[:1] == ("--",) else command
    if not argv:
        raise UsageError(
            "no command to run", hint="unstuck run torchrun --nproc-per-node 4 train.py"
        )
    if argv[0].startswith("-"):
        raise UsageError(f"there is no option {argv[0]}", hint="see `unstuck run --help`")
    from unstuck.act.defaults import policy
    from unstuck.config import find
    from unstuck.launch.run import run as launch

    chosen = policy(recover=recover, on=on, file=find(config)) if recover or on else None
    return launch(
        argv,
        run_dir=run_dir,
        name=name,
        hub=hub,
        as_json=as_json,
        policy=chosen,
        respawn=respawn,
    )
