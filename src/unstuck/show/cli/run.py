"""`unstuck run`: put it in front of any launch command."""

from pathlib import Path

import click

from unstuck.errors import UsageError
from unstuck.show.cli.options import config_option, duration


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where to store incidents. [default: runs/<time>-<name>]",
)
@click.option("--name", help="Name of the run. [default: the name of the script]")
@click.option(
    "--hub",
    metavar="HOST[:PORT]",
    help="Where the hub of a multi-node job listens. [default: the rendezvous host]",
)
@click.option(
    "--recover", is_flag=True, help="Act on verdicts; `unstuck policy show` lists the actions."
)
@click.option(
    "--on",
    multiple=True,
    metavar="CAUSE=ACTIONS",
    help="How to react to a cause, such as process-crash=report,restart:3. May be repeated.",
)
@click.option(
    "--respawn",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Replace a rank that dies in @unstuck.resilient training, up to N times.",
)
@click.option(
    "--patience",
    metavar="TIME",
    callback=duration,
    help="Report every stall after this time, such as 10s, alive or not. [default: as learned]",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Secret of a multi-node job, on a shared file system; made if missing.",
)
@click.option(
    "--web",
    metavar="HOST:PORT",
    help="Where to serve the job's page. [default: a free port of the loopback interface]",
)
@click.option("--no-web", is_flag=True, help="Serve no page.")
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print verdicts as JSON, one per line.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def run(  # noqa: PLR0913, PLR0917 - one argument per option
    command: tuple[str, ...],
    run_dir: Path | None,
    name: str | None,
    hub: str | None,
    recover: bool,
    on: tuple[str, ...],
    respawn: int,
    patience: float | None,
    token_file: Path | None,
    web: str | None,
    no_web: bool,
    config: Path | None,
    as_json: bool,
) -> int:
    """Run a training command and watch it; the script need not change.

    \b
    unstuck run torchrun --nproc-per-node 4 train.py
    unstuck run --run-dir out -- torchrun --nnodes 2 --rdzv-endpoint node0:29400 … train.py
    srun unstuck run python train.py

    Input, output, signals and the exit code are those of the command. Seconds after a stall
    the verdict is printed to stderr, and the evidence is stored in the run directory.

    With --recover or --on, unstuck also acts on verdicts. It may then end the command with an
    exit code from 80 to 86 that tells a scheduler what to do next: see docs/recovery.md.
    On several nodes that needs a secret: --token-file, or UNSTUCK_TOKEN on every node.
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
        patience=patience,
        token_file=token_file,
        web=web,
        no_web=no_web,
    )
