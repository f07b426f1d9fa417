"""`unstuck policy`: what would be done about a cause, and why; nodes that may come back."""

from pathlib import Path
from typing import Any

import click

from unstuck.errors import UserError

_RECOVER_HELP = "Without it, what happens by default: dump and report."


def _policy_options(command: Any) -> Any:
    """Add the options that `unstuck run` puts a policy together from."""
    options = [
        click.option("--recover/--no-recover", default=True, show_default=True, help=_RECOVER_HELP),
        click.option("--on", multiple=True, metavar="CAUSE=ACTIONS", help="As for `unstuck run`."),
        click.option(
            "--config",
            type=click.Path(path_type=Path, dir_okay=False),
            help="Where the [policy] table is. [default: unstuck.toml here, if there is one]",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.group(short_help="Say what would be done about a cause, and why.")
def policy() -> None:
    """Say what `unstuck run --recover` would do about a cause, and why."""


@policy.command()
@_policy_options
def show(*, recover: bool, on: tuple[str, ...], config: Path | None, as_json: bool) -> int:
    """Print the rule of every cause, and where it comes from."""
    chosen = _choose(recover=recover, on=on, config=config)
    if as_json:
        _print_json(
            {
                "schema": "unstuck.policy/1",
                "rules": {
                    cause: {"acts": [str(step) for step in rule], "origin": chosen.origins[cause]}
                    for cause, rule in chosen.rules.items()
                },
                "limits": chosen.limits,
            }
        )
        return 0
    width = max(len(cause) for cause in chosen.rules)
    for cause, rule in chosen.rules.items():
        origin = "" if chosen.origins[cause] == "default" else f"   [{chosen.origins[cause]}]"
        click.echo(f"{cause:<{width}}  {', '.join(str(step) for step in rule)}{origin}")
    limits = chosen.limits
    click.echo(
        f"\nlimits: {limits.restarts} restarts in a row without progress; {limits.unsure:g} s until"
        f" a possible verdict is acted on; a lease of {limits.lease:g} s"
    )
    return 0


@policy.command()
@click.argument("cause")
@_policy_options
def explain(
    cause: str, *, recover: bool, on: tuple[str, ...], config: Path | None, as_json: bool
) -> int:
    """Say what would be done about CAUSE, step by step, and why."""
    from unstuck.act.defaults import RECOVER
    from unstuck.act.plan import words
    from unstuck.act.rules import parse_cause

    name = parse_cause(cause)
    chosen = _choose(recover=recover, on=on, config=config)
    origin = chosen.origins[name]
    why = RECOVER[name].why if recover and origin == "default" else ""
    lines = [words(step) for step in chosen.rules[name]]
    if as_json:
        acts = [str(step) for step in chosen.rules[name]]
        told = {"cause": name, "acts": acts, "words": lines, "origin": origin, "why": why}
        _print_json({"schema": "unstuck.policy/1", **told})
        return 0
    click.echo(f"{name}, {'with' if recover else 'without'} --recover ({origin}):")
    for number, line in enumerate(lines, 1):
        click.echo(f"  {number}. {line}")
    if why:
        click.echo(f"why: {why}")
    if recover:
        for note in _notes(chosen.rules[name]):
            click.echo(f"note: {note}")
    return 0


def _notes(rule: Any) -> list[str]:
    acts = {str(step.action) for step in rule}
    notes: list[str] = []
    if acts & {"restart", "exclude"}:
        notes.append(
            "where the launcher has no restarts left (torchrun --max-restarts) the job is stopped"
            " with exit code 80, so that the scheduler starts it again"
        )
    if "exclude" in acts:
        notes.append("needs torchrun --nnodes MIN:MAX with enough nodes left; else exit code 81")
    if acts - {"dump", "report", "notify"} and "stop" not in acts:
        notes.append("what does not help in time ends with exit code 84, or 85 after restarts")
    return notes


@policy.command()
@click.argument("host")
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    required=True,
    help="The run directory of the job.",
)
def allow(host: str, run_dir: Path) -> int:
    """Let an excluded node come back; start `unstuck run` on it again after this."""
    from unstuck.act import exclude

    excluded = exclude.read(run_dir)
    if host not in {one.host for one in excluded}:
        names = ", ".join(one.host for one in excluded) or "no node"
        raise UserError(f"{host} is not excluded in {run_dir}", hint=f"excluded: {names}")
    exclude.write(run_dir, tuple(one for one in excluded if one.host != host))
    click.echo(f"{host} may come back")
    return 0


def _choose(*, recover: bool, on: tuple[str, ...], config: Path | None) -> Any:
    from unstuck.act.defaults import policy as choose
    from unstuck.config import find

    return choose(recover=recover, on=on, file=find(config))


def _print_json(told: Any) -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(told)).decode())
