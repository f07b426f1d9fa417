"""`unstuck ctl`: pause the watchers of a running job, or make them more or less patient."""

import os
from pathlib import Path
from typing import Any

import click
import msgspec

from unstuck.errors import UsageError, WorldError
from unstuck.observe.probe import link
from unstuck.observe.settings import durations

SCHEMA = "unstuck.ctl/1"
AUTO = "auto"
_WITHIN = 3.0

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_run_dir = click.argument(
    "run_dir", required=False, type=click.Path(path_type=Path, file_okay=False), metavar="[RUN_DIR]"
)


def _duration(_ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    seconds = None if value is None else durations.parse(value)
    if value is not None and not seconds:
        raise click.BadParameter(f"{value} is no duration: 90, 10m, 2h", param=parameter)
    return seconds


@click.group()
def ctl() -> None:
    """Pause the watchers of a running job, or make them more or less patient.

    RUN_DIR is the run directory of the job; without it, the only job that runs below runs/.
    Nothing here touches the job itself.
    """


@ctl.command()
@click.option(
    "--for",
    "seconds",
    metavar="TIME",
    default="1h",
    show_default=True,
    callback=_duration,
    help="How long; then stalls are judged again by themselves.",
)
@_json
@_run_dir
def pause(run_dir: Path | None, seconds: float, as_json: bool) -> None:
    """Judge no stalls for a while: for a debugger, a long copy, a maintenance.

    Deaths are named all the same.
    """
    _send(run_dir, {"do": "pause", "for": seconds}, as_json=as_json)


@ctl.command()
@_json
@_run_dir
def resume(run_dir: Path | None, as_json: bool) -> None:
    """Judge stalls again."""
    _send(run_dir, {"do": "resume"}, as_json=as_json)


@ctl.command("set")
@click.option("--patience", metavar="TIME|auto", help="How long a wait may last; auto: as learned.")
@click.option(
    "--section",
    "sections",
    metavar="NAME=TIME|auto",
    multiple=True,
    help="How long a section may take, instead of its own deadline.",
)
@_json
@_run_dir
def set_(
    run_dir: Path | None, patience: str | None, sections: tuple[str, ...], as_json: bool
) -> None:
    """Say how long a wait, or a section, may last from now on.

    \b
    unstuck ctl set --patience 10m
    unstuck ctl set --section save=1h --section "load batch"=auto
    """
    message: dict[str, Any] = {"do": "set"}
    if patience is not None:
        message["patience"] = _asked(patience, "--patience")
    if sections:
        message["sections"] = dict(_pair(one) for one in sections)
    if len(message) == 1:
        raise UsageError("nothing to set", hint="unstuck ctl set --patience 10m")
    _send(run_dir, message, as_json=as_json)


@ctl.command()
@_json
@_run_dir
def status(run_dir: Path | None, as_json: bool) -> None:
    """Show whether stalls are judged, and how long a wait may last."""
    _send(run_dir, {"do": "status"}, as_json=as_json)


def _pair(text: str) -> tuple[str, float | None]:
    name, equals, value = text.rpartition("=")
    if not equals or not name:
        raise UsageError(f"--section {text} is not NAME=TIME", hint="--section save=10m")
    return name, _asked(value, f"--section {name}")


def _asked(text: str, option: str) -> float | None:
    if text == AUTO:
        return None
    seconds = durations.parse(text)
    if not seconds:
        raise UsageError(f"{option} {text} is no duration", hint="90, 10m, 2h, or auto")
    return seconds


def _send(run_dir: Path | None, message: dict[str, Any], *, as_json: bool) -> None:
    answer = link.ask({"ctl": message}, _WITHIN, _socket(run_dir))
    if answer is None:
        raise WorldError("the agent of this job does not answer", hint="does the job still run?")
    if "error" in answer:
        raise UsageError(str(answer["error"]))
    if as_json:
        told = {"schema": SCHEMA, **answer}
        click.echo(msgspec.json.format(msgspec.json.encode(told), indent=2).decode())
    else:
        click.echo(_text(answer))


def _socket(run_dir: Path | None) -> str:
    """Find the socket of the agent; by its real path, as a socket's name must be short."""
    places = [run_dir] if run_dir else sorted(Path("runs").glob("*"))
    found = {place: sockets for place in places if (sockets := _sockets(place))}
    if not found:
        where = f"in {run_dir}" if run_dir else "below runs/"
        raise UsageError(f"no job runs {where} on this host", hint="unstuck ctl status RUN_DIR")
    if len(found) > 1:
        names = ", ".join(str(run) for run in found)
        raise UsageError(f"several jobs run here: {names}", hint="name one: unstuck ctl … RUN_DIR")
    return found.popitem()[1][-1]


def _sockets(run: Path) -> list[str]:
    """List the sockets of a run's agents: by the link that `unstuck run` makes, or as written down.

    The latter is the only way to a job that asked for its watchers by `unstuck.watch()`.
    """
    live = [*run.glob("live-*"), *map(_written_down, run.glob("unstuck*.json"))]
    doors = dict.fromkeys(os.path.realpath(one / link.SOCKET) for one in live if one)
    return [door for door in doors if Path(door).is_socket()]


def _written_down(facts: Path) -> Path | None:
    try:
        return Path(msgspec.json.decode(facts.read_bytes())["live"])
    except (OSError, KeyError, TypeError, msgspec.MsgspecError):
        return None


def _text(answer: dict[str, Any]) -> str:
    if answer.get("said"):
        return str(answer["said"])
    controls = answer.get("controls", {})
    left = controls.get("paused_left", 0.0)
    lines = [f"paused for {left:.0f} s more: deaths are named, stalls are not"]
    if not left:
        lines = ["stalls and deaths are judged"]
    learned = f"{answer.get('learned', 0.0):g} s, learned"
    told = controls.get("patience")
    lines.append(f"patience: {told:g} s ({learned})" if told else f"patience: {learned}")
    for name, seconds in controls.get("sections", {}).items():
        lines.append(f"section {name}: {seconds:g} s")
    return "\n".join(lines)
