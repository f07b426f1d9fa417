"""The command line is a promise: a change of it must show as a change of the golden file.

Write the file anew with: UNSTUCK_GOLDEN=write pytest tests/unit/show/cli/test_surface.py
"""

import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from unstuck.show.cli.main import cli

GOLDEN = Path(__file__).parents[3] / "golden" / "cli.txt"


def describe_parameter(parameter: click.Parameter) -> str:
    name = " ".join([*parameter.opts, *(f"/{no}" for no in parameter.secondary_opts)])
    facts = [parameter.type.name]
    if isinstance(parameter.type, click.Choice):
        facts = ["|".join(str(choice) for choice in parameter.type.choices)]
    if isinstance(parameter, click.Option) and parameter.is_flag:
        facts = ["flag"]
    if parameter.nargs != 1:
        facts.append(f"nargs={parameter.nargs}")
    facts += [word for word in ("required", "multiple", "hidden") if getattr(parameter, word, None)]
    if parameter.envvar:
        facts.append(f"env={parameter.envvar}")
    if isinstance(parameter.default, str | int | float) and parameter.default is not False:
        facts.append(f"default={parameter.default}")
    return f"{parameter.param_type_name} {name}: {', '.join(facts)}"


def describe(command: click.Command, path: str, parent: click.Context | None) -> Iterator[str]:
    """Yield a line for the command, its parameters, and all commands below it."""
    yield path + (" (hidden)" if command.hidden else "")
    settings = command.context_settings  # as click itself does: it names the help options
    context = click.Context(command, info_name=command.name, parent=parent, **settings)
    yield from sorted(f"  {describe_parameter(p)}" for p in command.get_params(context))
    if isinstance(command, click.Group):
        for name in sorted(command.list_commands(context)):
            child = command.get_command(context, name)
            assert child is not None, f"{path} lists {name} but does not have it"
            yield from describe(child, f"{path} {name}", context)


def test_the_command_line_is_the_one_that_was_promised():
    surface = "\n".join(describe(cli, "unstuck", None)) + "\n"
    if os.environ.get("UNSTUCK_GOLDEN") == "write":
        GOLDEN.write_text(surface)
    assert GOLDEN.exists(), "no golden file; write it with UNSTUCK_GOLDEN=write"
    assert surface == GOLDEN.read_text(), (
        "the command line changed; if that is wanted, write the file anew with UNSTUCK_GOLDEN=write"
    )


@pytest.mark.parametrize(
    ("parameter", "line"),
    [
        (click.Option(["--json"], is_flag=True), "option --json: flag"),
        (click.Option(["-n", "--lines"], default=5), "option -n --lines: integer, default=5"),
        (
            click.Option(["--mode"], type=click.Choice(["a", "b"]), envvar="UNSTUCK_MODE"),
            "option --mode: a|b, env=UNSTUCK_MODE",
        ),
        (
            click.Argument(["command"], nargs=-1, required=True),
            "argument command: text, nargs=-1, required",
        ),
    ],
)
def test_a_parameter_is_described_by_all_that_a_caller_relies_on(
    parameter: click.Parameter, line: str
):
    assert describe_parameter(parameter) == line
