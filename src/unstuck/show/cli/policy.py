"""`unstuck policy`: what would be done about a cause, and why; nodes that may return."""

from pathlib import Path
from typing import Any

import click

from unstuck.act.defaults import RECOVER
from unstuck.act.defaults import policy as choose
from unstuck.act.plan import LOST, words
from unstuck.act.policy import DEFAULT, parse_cause
from unstuck.act.steps import exclude
from unstuck.config import find
from unstuck.errors import UserError
from unstuck.model.action import Step
from unstuck.model.verdict import Cause
from unstuck.show.cli.options import config_option, json_option, print_json

SCHEMA = "unstuck.policy/1"


def _policy_options(command: Any) -> Any:
    """Add the options from which `unstuck run` builds a policy."""
    options = [
        click.option(
            "--recover/--no-recover",
            default=True,
            show_default=True,
            help="Whether `unstuck run` is given --recover; without it, it only reports.",
        ),
        click.option(
            "--on", multiple=True, metavar="CAUSE=ACTIONS", help="As given to `unstuck run`."
        ),
        config_option,
        json_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.group()
def policy() -> None:
    """Show how `unstuck run --recover` would react to a cause, and why."""


@policy.command()
@_policy_options
def show(*, recover: bool, on: tuple[str, ...], config: Path | None, as_json: bool) -> int:
    """Show the actions for every cause, and where each rule comes from."""
    chosen = choose(recover=recover, on=on, file=find(config))
    if as_json:
        print_json(
            {
                "schema": SCHEMA,
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
        origin = "" if chosen.origins[cause] == DEFAULT else f"   [{chosen.origins[cause]}]"
        click.echo(f"{cause:<{width}}  {', '.join(str(step) for step in rule)}{origin}")
    limits = chosen.limits
    click.echo(
        f"\nlimits: {limits.restarts} restarts in a row without progress; {limits.unsure:g} s"
        f" before acting on a possible verdict; a lease of {limits.lease:g} s"
    )
    return 0


@policy.command()
@click.argument("cause")
@_policy_options
def explain(
    cause: str, *, recover: bool, on: tuple[str, ...], config: Path | None, as_json: bool
) -> int:
    """Explain step by step what would be done about CAUSE, and why."""
    name = parse_cause(cause)
    chosen = choose(recover=recover, on=on, file=find(config))
    origin = chosen.origins[name]
    why = RECOVER[name].why if recover and origin == DEFAULT else ""
    lines = [words(step) for step in chosen.rules[name]]
    if as_json:
        acts = [str(step) for step in chosen.rules[name]]
        rule = {"cause": name, "acts": acts, "words": lines, "origin": origin, "why": why}
        print_json({"schema": SCHEMA, **rule})
        return 0
    click.echo(f"{name}, {'with' if recover else 'without'} --recover ({origin}):")
    for number, line in enumerate(lines, 1):
        click.echo(f"  {number}. {line}")
    if why:
        click.echo(f"why: {why}")
    if recover:
        for note in _notes(name, chosen.rules[name], origin):
            click.echo(f"note: {note}")
    return 0


def _notes(cause: Cause, rule: tuple[Step, ...], origin: str) -> list[str]:
    acts = {str(step.action) for step in rule}
    interferes = bool(acts - {"dump", "report", "notify"})
    notes: list[str] = []
    if origin == DEFAULT and cause not in LOST and interferes:
        notes.append(
            f"only a certain verdict is acted on; name the cause yourself"
            f" (--on {cause}=...) to act on likely and possible ones as well"
        )
    if acts & {"restart", "exclude"}:
        notes.append(
            "if the launcher has no restarts left (torchrun --max-restarts), the job is stopped"
            " with exit code 80, which tells the scheduler to start it again"
        )
    if "exclude" in acts:
        notes.append("needs torchrun --nnodes MIN:MAX and enough nodes left; else exit code 81")
    if interferes and "stop" not in acts:
        notes.append("if nothing helps in time, the exit code is 84, or 85 after restarts")
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
    """Allow an excluded node to return.

    Start `unstuck run` on that node again afterwards.
    """
    excluded = exclude.read(run_dir)
    if host not in {one.host for one in excluded}:
        names = ", ".join(one.host for one in excluded) or "no node"
        raise UserError(f"{host} is not excluded in {run_dir}", hint=f"excluded: {names}")
    exclude.write(run_dir, tuple(one for one in excluded if one.host != host))
    click.echo(f"{host} may return")
    return 0
