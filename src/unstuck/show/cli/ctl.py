"""`unstuck ctl`: pause stall detection in a running job, or change its patience."""

from pathlib import Path
from typing import Any

import click

from unstuck import durations
from unstuck.errors import UsageError, WorldError
from unstuck.observe.probe import link
from unstuck.show import runs
from unstuck.show.cli.options import json_option, print_json

SCHEMA = "unstuck.ctl/1"
AUTO = "auto"
_WITHIN = 3.0

_run_dir = click.argument(
    "run_dir", required=False, type=click.Path(path_type=Path, file_okay=False), metavar="[RUN_DIR]"
)


@click.group()
def ctl() -> None:
    """Pause stall detection in a running job, or change its patience.

    RUN_DIR is the run directory of the job. It may be left out if only one job is running
    below runs/. None of these commands touches the job itself.
    """


@ctl.command()
@click.option(
    "--for",
    "duration",
    metavar="TIME",
    default="1h",
    show_default=True,
    help="For how long; then stalls are reported again.",
)
@json_option
@_run_dir
def pause(run_dir: Path | None, duration: str, as_json: bool) -> None:
    """Report no stalls for a while.

    Useful while you attach a debugger, copy a large file or service a node. Processes that
    die are still reported.
    """
    _send(run_dir, {"do": "pause", "for": _seconds(duration, "--for")}, as_json=as_json)


@ctl.command()
@json_option
@_run_dir
def resume(run_dir: Path | None, as_json: bool) -> None:
    """Report stalls again."""
    _send(run_dir, {"do": "resume"}, as_json=as_json)


@ctl.command("set")
@click.option(
    "--patience",
    metavar="TIME|auto",
    help="How long a wait may last; auto: as learned from the job.",
)
@click.option(
    "--section",
    "sections",
    metavar="NAME=TIME|auto",
    multiple=True,
    help="How long a section may take; auto: its own deadline. May be repeated.",
)
@json_option
@_run_dir
def set_(
    run_dir: Path | None, patience: str | None, sections: tuple[str, ...], as_json: bool
) -> None:
    """Change how long a wait or a section may last from now on.

    \b
    unstuck ctl set --patience 10m
    unstuck ctl set --section save=1h --section "load batch"=auto
    """
    message: dict[str, Any] = {"do": "set"}
    if patience is not None:
        message["patience"] = _seconds_or_auto(patience, "--patience")
    if sections:
        message["sections"] = dict(_pair(one) for one in sections)
    if len(message) == 1:
        raise UsageError("nothing to set", hint="unstuck ctl set --patience 10m")
    _send(run_dir, message, as_json=as_json)


@ctl.command()
@json_option
@_run_dir
def status(run_dir: Path | None, as_json: bool) -> None:
    """Show whether stalls are reported, and how long a wait may last."""
    _send(run_dir, {"do": "status"}, as_json=as_json)


def _pair(text: str) -> tuple[str, float | None]:
    name, equals, value = text.rpartition("=")
    if not equals or not name:
        raise UsageError(f"--section {text} is not NAME=TIME", hint="--section save=10m")
    return name, _seconds_or_auto(value, f"--section {name}")


def _seconds_or_auto(text: str, option: str) -> float | None:
    return None if text == AUTO else _seconds(text, option)


def _seconds(text: str, option: str) -> float:
    seconds = durations.parse(text)
    if not seconds:
        raise UsageError(f"{option} {text} is not a duration", hint="write 90, 10m or 2h")
    return seconds


def _send(run_dir: Path | None, message: dict[str, Any], *, as_json: bool) -> None:
    answer = link.ask({"ctl": message}, _WITHIN, _socket(run_dir))
    if answer is None:
        raise WorldError("the agent of this job does not answer", hint="is the job still running?")
    if "error" in answer:
        raise UsageError(str(answer["error"]))
    if as_json:
        print_json({"schema": SCHEMA, **answer})
    else:
        click.echo(_text(answer))


def _socket(run_dir: Path | None) -> str:
    """Return the real path of the agent's socket: the name of a socket must be short."""
    places = [run_dir] if run_dir else sorted(Path("runs").glob("*"))
    found = {place: sockets for place in places if (sockets := runs.at(place).sockets)}
    if not found:
        where = f"in {run_dir}" if run_dir else "below runs/"
        raise UsageError(
            f"no job is running {where} on this host", hint="unstuck ctl status RUN_DIR"
        )
    if len(found) > 1:
        names = ", ".join(str(run) for run in found)
        raise UsageError(
            f"several jobs are running here: {names}", hint="name one: unstuck ctl … RUN_DIR"
        )
    return found.popitem()[1][-1]


def _text(answer: dict[str, Any]) -> str:
    if answer.get("said"):
        return str(answer["said"])
    controls = answer.get("controls", {})
    left, patience = controls.get("paused_left", 0.0), controls.get("patience")
    lines = ["stalls and deaths are reported"]
    if left:
        lines = [f"paused for another {left:.0f} s: deaths are reported, stalls are not"]
    learned = f"{answer.get('learned', 0.0):g} s"
    lines.append(
        f"patience: {patience:g} s (learned: {learned})"
        if patience
        else f"patience: {learned} (learned)"
    )
    for name, seconds in controls.get("sections", {}).items():
        lines.append(f"section {name}: {seconds:g} s")
    return "\n".join(lines)
