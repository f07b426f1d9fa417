"""What several commands share: exit codes, options, and how JSON is printed."""

from pathlib import Path
from typing import Any

import click

from unstuck import durations

FOUND = 1
"""Exit code: a problem was found."""
NOTHING = 0

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
lang_option = click.option(
    "--lang", type=click.Choice(["en", "zh"]), default="en", help="Language of the report."
)
kb_option = click.option(
    "--kb",
    "extra",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A directory with records of your own. May be repeated.",
)
config_option = click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file with the [policy] table. [default: ./unstuck.toml if it exists]",
)


run_argument = click.argument(
    "run", required=False, type=click.Path(path_type=Path), metavar="[RUN]"
)
"""A run directory, or the name of one below runs/."""


def duration(_ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Read an option that is a duration, for `callback`."""
    if value is None:
        return None
    seconds = durations.parse(value)
    if not seconds:
        raise click.BadParameter(
            f"{value} is not a duration such as 90, 10m, 2h or 1-00:00:00", param=parameter
        )
    return seconds


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    import msgspec

    encoded = msgspec.json.encode(value, enc_hook=str)
    click.echo(msgspec.json.format(encoded, indent=2).decode())
