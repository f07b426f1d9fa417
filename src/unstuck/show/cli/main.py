"""The command `unstuck`: finds the subcommand, and is the only place that catches errors.

Importing this module imports click and the error tree, nothing else, so `unstuck --version`
and completion stay fast: a command's own module is loaded when that command is called.
"""

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from unstuck.errors import UnstuckError

COMMANDS = {
    "run": "Run a training command and report why it stalls, if it does.",
    "status": "Show how a running job is doing.",
    "incidents": "List what went wrong in a run.",
    "dump": "Store a running job as it is now, with the stacks of its ranks.",
    "attach": "Look into a job that hangs now and was not started with unstuck.",
    "doctor": "Check this machine, or a launch command, before the job runs.",
    "diagnose": "Diagnose a stored incident, or dumps written by PyTorch.",
    "report": "Write a report of a stored incident: HTML, Markdown or JSON.",
    "serve": "Show stored runs in a browser.",
    "explain": "Explain what went wrong, from the logs of a job.",
    "timeouts": "Show the timeouts of a job: which have no effect, which conflict.",
    "ctl": "Pause stall detection in a running job, or change its patience.",
    "policy": "Show how unstuck would react to a cause, and why.",
    "kb": "Read, search and check the knowledge base of failure messages.",
    "lab": "Run jobs that fail on purpose, and score the verdicts.",
    "top": "Watch a job live in the terminal.",
    "metrics": "Print or serve Prometheus metrics of the jobs on this host.",
    "mcp": "Let an AI agent ask what is wrong with a job (MCP server).",
    "completion": "Print the completion script for a shell.",
}
"""Name -> summary, in the order of `unstuck --help`, which need not import any of them.

The command `name` is the function of that name in the module of that name.
"""

ROOMS = {"look": ("status", "incidents", "dump", "report", "serve", "top", "metrics", "mcp")}
"""The folders of those that do not lie beside this module."""

COMPLETE = "_UNSTUCK_COMPLETE"
"""The variable through which a shell asks for completions; click's convention."""

INTERRUPTED = 130
PIPE_CLOSED = 141
BUG = 4


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command, or None if there is no command of that name."""
        if cmd_name not in COMMANDS:
            return None
        room = next((f"{room}." for room, names in ROOMS.items() if cmd_name in names), "")
        return getattr(import_module(f"unstuck.show.cli.{room}{cmd_name}"), cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest the most similar name."""
        name = args[0]
        if name in COMMANDS or name.startswith("-"):
            return super().resolve_command(ctx, args)
        near = get_close_matches(name, COMMANDS, n=1)
        meant = f"; did you mean `{near[0]}`?" if near else ""
        raise click.UsageError(f"there is no command `{name}`{meant}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _print_version(ctx: click.Context, _param: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from unstuck._version import __version__

        click.echo(f"unstuck {__version__}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Get stuck distributed PyTorch training unstuck."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; no exception leaves this function.

    Example:
        sys.exit(main(["diagnose", "runs/7"]))
    """
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _run(args)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.UsageError as error:
        return _say_usage(error)
    except click.ClickException as error:
        return _say(error.format_message(), "", error.exit_code)
    except UnstuckError as error:
        return _say(error.message, error.hint, error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        return _close_pipe()
    except Exception as error:
        return _say_bug(error)
    return code


def _run(args: list[str]) -> int:
    """Run without click's own handling, which would swallow a broken pipe."""
    asked = os.environ.get(COMPLETE)
    if asked:
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "unstuck", COMPLETE, asked)
    try:
        with cli.make_context("unstuck", args) as ctx:
            result: Any = cli.invoke(ctx)
    except click.exceptions.Exit as stop:
        result = stop.exit_code
    except SystemExit as stop:
        result = stop.code
    return result if isinstance(result, int) else 0


def _say(message: str, hint: str, code: int) -> int:
    from unstuck.console import shown

    click.echo(f"unstuck: {shown(message)}", err=True)
    if hint:
        click.echo(f"  {shown(hint)}", err=True)
    return code


def _say_usage(error: click.UsageError) -> int:
    path = error.ctx.command_path if error.ctx else "unstuck"
    message = error.format_message().rstrip(".")
    return _say(message[:1].lower() + message[1:], f"try `{path} --help`", error.exit_code)


def _say_bug(error: Exception) -> int:
    debug = os.environ.get("UNSTUCK_DEBUG") == "1"
    if debug:
        import traceback

        traceback.print_exception(error)
    hint = "" if debug else "please run it again with UNSTUCK_DEBUG=1 and report the traceback"
    text = " ".join(str(error).split())
    return _say(f"this is a bug in unstuck: {type(error).__name__}: {text}", hint, BUG)


def _close_pipe() -> int:
    # The interpreter flushes stdout once more at exit; give it somewhere to write to.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED
