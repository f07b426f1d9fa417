"""`unstuck timeouts`: the timeouts of a job, those without effect, conflicts, and a fix."""

import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import click
import msgspec
from click.shell_completion import CompletionItem
from msgspec.structs import replace

from unstuck.collect import bundle, timeouts_file
from unstuck.diagnose.timeouts import judge
from unstuck.diagnose.timeouts import live as live_settings
from unstuck.diagnose.timeouts.merge import merge
from unstuck.errors import SettingsError, UsageError
from unstuck.explain.report import timeouts as report
from unstuck.model.timeouts import JobSettings, Knob, Layer, NoteKind, Origin, TimeoutsFile
from unstuck.observe.timeouts import command as command_settings
from unstuck.show.cli.options import duration

FOUND = 1
NOTHING = 0


def _complete(
    _ctx: click.Context, _parameter: click.Parameter, begun: str
) -> "list[CompletionItem[str]]":
    return [CompletionItem(begun, type="file")]


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Show a job's timeouts, those without effect and those in conflict.",
)
@click.option("--env", "env_only", is_flag=True, help="Read only the environment.")
@click.option(
    "--limit",
    metavar="TIME",
    callback=duration,
    help="The scheduler's time limit, where it cannot be detected.",
)
@click.option(
    "--longest",
    metavar="TIME",
    callback=duration,
    help="The longest time one rank works alone: a checkpoint, an evaluation.",
)
@click.option("--sources", is_flag=True, help="Show the source of each claim.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument(
    "what",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="[RUN_DIR | -- COMMAND...]",
    shell_complete=_complete,
)
def timeouts(
    what: tuple[str, ...],
    env_only: bool,
    limit: float | None,
    longest: float | None,
    sources: bool,
    as_json: bool,
) -> int:
    """Show the timeouts of a job, where they were set, and whether they are consistent.

    \b
    unstuck timeouts                             the newest run below runs/
    unstuck timeouts runs/7                      a run, or an incident of it
    unstuck timeouts -- torchrun … train.py      a command that does not run yet

    For a run, the values in effect are shown. A command is read, not run. Exits with 1 if
    a setting has no effect or conflicts with another, 0 if none does, 2 on errors.
    """
    if env_only and what:
        raise UsageError("--env takes no other arguments")
    job = _with(_read(what, env_only=env_only), limit, longest)
    found = judge(job)
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n")
    else:
        sys.stdout.write(_text(found, sources=sources))
    return FOUND if any(note.kind is not NoteKind.HINT for note in found.notes) else NOTHING


def _read(what: tuple[str, ...], *, env_only: bool) -> JobSettings:
    words = what[1:] if what[:1] == ("--",) else what
    if not words:
        newest = None if env_only else _newest(Path("runs"))
        if newest is not None:
            return _from_run(newest)
        alone = _from_command((), os.environ)
        why = "" if env_only else ", as no run below runs/ has reported any"
        return replace(alone, source=f"{alone.source}{why}")
    first = Path(words[0])
    if len(words) == 1 and first.is_dir():
        return _from_run(first)
    if _is_command(words):
        return _from_command(words, os.environ)
    if words[0].startswith("-"):
        raise UsageError(f"no such option: {words[0]}", hint="see `unstuck timeouts --help`")
    raise UsageError(
        f"{words[0]} is neither a run directory nor a command",
        hint="unstuck timeouts runs/NAME, or unstuck timeouts -- torchrun … train.py",
    )


def _is_command(words: tuple[str, ...]) -> bool:
    """Tell whether the program exists here, or at least its script does."""
    if shutil.which(words[0]) or Path(words[0]).is_file():
        return True
    return any(word.endswith(".py") and Path(word).is_file() for word in words[1:])


def _newest(runs: Path) -> Path | None:
    """Return the run that reported its timeouts last."""
    found = list(runs.glob(f"*/{timeouts_file.NAME}"))
    return max(found, key=lambda path: path.stat().st_mtime).parent if found else None


def _from_run(path: Path) -> JobSettings:
    found = timeouts_file.read(path)
    if found is not None:
        argv = _command_of(path)
    elif bundle.is_at(path):
        incident = bundle.read(path)
        found = live_settings.read(incident.snapshot)
        argv = tuple(incident.about.get("command", ()))
    else:
        raise SettingsError(
            f"no rank has reported its timeouts in {path}",
            hint="a job under unstuck run reports them seconds after init_process_group",
        )
    static = _from_command(argv, found.env) if argv else JobSettings(source="")
    return replace(merge(found, static), source=f"{found.source} ({path})")


def _command_of(run: Path) -> tuple[str, ...]:
    try:
        facts = msgspec.json.decode((run / "unstuck.json").read_bytes())
        return tuple(facts["command"])
    except (OSError, KeyError, TypeError, msgspec.MsgspecError):
        return ()


def _from_command(argv: tuple[str, ...], env: Mapping[str, str]) -> JobSettings:
    return command_settings.read(argv, env, time.time(), ask=env is os.environ)


def _with(job: JobSettings, limit: float | None, longest: float | None) -> JobSettings:
    """Add what only the user knows."""
    if limit is not None:
        rest = tuple(k for k in job.knobs if k.layer is not Layer.SCHEDULER)
        knob = Knob("scheduler's limit", Layer.SCHEDULER, limit, "", Origin.COMMAND, "--limit")
        unseen = tuple(text for text in job.unseen if "--limit" not in text)
        job = replace(job, knobs=(*rest, knob), unseen=unseen)
    if longest is not None:
        job = replace(job, longest=longest, longest_at="(--longest)")
    return job


def _text(found: TimeoutsFile, *, sources: bool) -> str:
    stream = sys.stdout
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    width = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 80
    colour = stream.isatty() and not plain
    return report.render(found, width=width, colour=colour, sources=sources)
