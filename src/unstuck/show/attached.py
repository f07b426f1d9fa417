"""What `unstuck attach` found: the verdict, or where every rank is, and what could not be seen."""

import textwrap
from collections.abc import Iterator
from typing import Any, TextIO

import msgspec
from rich.text import Text

from unstuck.console import clean
from unstuck.diagnose.text import ranks_text, seconds_text
from unstuck.explain.report import machine
from unstuck.explain.report.screen import screen
from unstuck.explain.report.stack_lines import draw
from unstuck.explain.report.terminal import paint, render_for
from unstuck.explain.view.stack_tree import merge_stacks
from unstuck.model.rank import ProcessState, RankState
from unstuck.model.snapshot import Snapshot
from unstuck.pipelines.outside import Attached

_MOST_PLACES = 8
_STATES = {
    ProcessState.STOPPED: "stopped by a signal",
    ProcessState.TRACED: "held by a debugger",
    ProcessState.FROZEN: "frozen with its control group",
    ProcessState.DISK: "waits for a disk",
    ProcessState.GONE: "has no process here",
}


def render(stream: TextIO, found: Attached, *, stacks: bool = False) -> str:
    """Return the report for this stream, ending in a newline.

    Example:
        sys.stdout.write(render(sys.stdout, judge(watch)))
    """
    shown = screen(stream)
    utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
    width = min(max(shown.width, 60), 100)
    lines = [Text(_head(found), style="bold")]
    if found.verdict is None:
        lines += _places(found, width)
    if stacks:
        drawn = draw(merge_stacks(Snapshot(0.0, ranks=found.ranks)), unicode=utf8)
        lines += [Text(), *map(Text, drawn)]
    text = paint(lines, colour=shown.colour, ascii_only=not utf8)
    if found.verdict is not None:
        text += "\n" + render_for(stream, found.verdict)
    notes = [Text("not seen", style="dim"), *_notes(found, width)]
    return text + (paint(notes, colour=shown.colour, ascii_only=not utf8) if found.unseen else "")


def as_json(found: Attached, *, stacks: bool = False) -> dict[str, Any]:
    """Return the verdict file with what was looked at beside it."""
    about: dict[str, Any] = {
        "job": found.job,
        "moves": found.moves,
        "seconds": found.seconds,
        "ranks": [_rank(state) for state in found.ranks],
        "unseen": list(found.unseen),
    }
    if stacks:
        about["stacks"] = msgspec.to_builtins(merge_stacks(Snapshot(0.0, ranks=found.ranks)))
    return {**machine.plain(found.verdict), "attached": about}


def _rank(state: RankState) -> dict[str, Any]:
    user = next((line for line in state.stack if line.user), None)
    return {
        "rank": state.rank,
        "host": state.host,
        "pid": state.process.pid,
        "state": str(state.process.state),
        "cpu": state.process.cpu,
        "stalled_for": state.stalled_for,
        "in_operation": state.in_flight,
        "file": user.file if user else "",
        "line": user.line if user else 0,
        "function": user.function if user else "",
        "unobserved": state.unobserved,
    }


def _head(found: Attached) -> str:
    here = [state for state in found.ranks if state.process.pid]
    hosts = len({state.host for state in here})
    machines = f" on {hosts} machines" if hosts > 1 else ""
    size = len(found.ranks)
    of = f" of {size}" if size > len(here) else ""
    count = f"{len(here)}{of} {'rank' if size == 1 else 'ranks'}"
    return f"job {clean(found.job)}: {count}{machines}, looked at for {found.seconds:.1f} s"


def _places(found: Attached, width: int) -> Iterator[Text]:
    if found.moves:
        yield Text("it makes progress: every rank that was looked at has moved on meanwhile")
        return
    yield Text("no verdict: nothing shows that anybody has waited for long enough")
    places: dict[str, list[int]] = {}
    for state in found.ranks:
        if state.process.pid or state.process.state is ProcessState.GONE:
            places.setdefault(_place(state), []).append(state.rank)
    for place, ranks in list(places.items())[:_MOST_PLACES]:
        longest = max(one.stalled_for for one in found.ranks if one.rank in ranks)
        lasted = f", {seconds_text(longest)}" if longest else ""
        yield from _wrapped(f"{ranks_text(ranks)}: {place}{lasted}", width)


def _place(state: RankState) -> str:
    if state.process.state in _STATES:
        return _STATES[state.process.state]
    if not state.stack:
        return f"state {state.process.state}, stack unknown"
    line = next((one for one in state.stack if one.user), state.stack[0])
    at = f"{line.file.rsplit('/', 1)[-1]}:{line.line} in {line.function}"
    return clean(f"at {at}: {line.text}" if line.text else f"at {at}")


def _notes(found: Attached, width: int) -> Iterator[Text]:
    for note in found.unseen:
        yield from _wrapped(note, width)


def _wrapped(text: str, width: int) -> Iterator[Text]:
    # Commands that the reader may want to copy are not broken at their dashes.
    for line in textwrap.wrap(
        clean(text), width, initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=False
    ):
        yield Text(line, style="dim")
