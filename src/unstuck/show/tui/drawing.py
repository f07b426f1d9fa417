"""What `unstuck top` draws, as rich texts: pure functions of what is known of a job."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import wrap

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from unstuck import durations
from unstuck.console import clean
from unstuck.explain.view.doing_now import BY_LETTER, LETTERS, State
from unstuck.explain.view.job_view import JobView
from unstuck.explain.view.rank_view import RankView
from unstuck.model.verdict import Verdict

CELL = "\u25a0"
STYLES = {
    State.COMPUTING: "green",
    State.COLLECTIVE: "blue",
    State.SECTION: "cyan",
    State.BLOCKED: "yellow",
    State.STARTING: "bright_black",
    State.SLOW: "dark_orange",
    State.DONE: "bright_black",
    State.UNSEEN: "white",
    State.MISSING: "bright_black",
    State.SILENT: "magenta",
    State.STOPPED: "red",
    State.GONE: "bold red",
}
_BLAMED = "bold white on red"
_LABEL = "dim"
_NAME_ROOM = 16
_GUTTER = 11
_MOST_LINES_OF_TEXT = 3


def head(view: JobView, headline: str, name: str, width: int) -> Text:
    """Return the first line: which job, how it is, how far it is."""
    hosts = len(view.grid.hosts)
    facts = [f"{view.world_size} ranks on {hosts} host{'' if hosts == 1 else 's'}"]
    facts += [f"step {view.step}"] if view.step else []
    facts += [f"attempt {view.attempt + 1}"] if view.attempt else []
    if view.time.step:
        facts.append(
            f"{step_text(view.time.step)}/{view.time.unit}, "
            f"{view.time.waiting_share:.0%} of it waiting"
        )
    style = "bold red" if view.verdict and not view.verdict.slowdown else "bold green"
    line = Text(no_wrap=True)
    line.append(clean(headline), style)
    line.append(f"  {'  '.join(facts)}  ", _LABEL)
    line.append(clean(name), _LABEL)
    line.truncate(width, overflow="ellipsis")
    return line


def legend(view: JobView, width: int, *, letters: bool = False) -> Text:
    """Return how many ranks are in which state, with the colour or letter of each."""
    line = Text()
    for state in State:
        if count := view.counts.get(state, 0):
            line.append(LETTERS[state] if letters else CELL, STYLES[state])
            line.append(f" {count} {state}   ")
    line.rstrip()
    line.truncate(width, overflow="ellipsis")
    return line


def cells_per_row(view: JobView, width: int) -> int:
    """Return how many cells fit beside the name of a host: a multiple of 8, where there is room."""
    room = max(1, (width - name_room(view) - 1) // 2)
    return room - room % 8 if room >= 8 else room


def name_room(view: JobView) -> int:
    """Return how wide the column of host names is."""
    return min(_NAME_ROOM, max((cell_len(clean(one.name)) for one in view.grid.hosts), default=1))


def places(view: JobView, width: int) -> list[list[int]]:
    """Return the rows of the grid, each as indices into `view.grid.ranks`."""
    wide = cells_per_row(view, width)
    return [
        list(range(start, min(start + wide, host.first + host.count)))
        for host in view.grid.hosts
        for start in range(host.first, host.first + host.count, wide)
    ]


def grid(
    view: JobView,
    width: int,
    *,
    selected: int | None = None,
    letters: bool = False,
    rows: slice = slice(None),
) -> list[Text]:
    """Return one line for each row of the grid: the host, then a cell for each rank.

    Example:
        grid(view, 80, letters=True)
    """
    firsts = {host.first: host for host in view.grid.hosts}
    room, blamed = name_room(view), set(view.culprits)
    lines: list[Text] = []
    for row in places(view, width)[rows]:
        host = firsts.get(row[0])
        name = set_cell_size(clean(host.name) if host else "", room)
        line = Text(f"{name} ", style=_LABEL, no_wrap=True)
        for place in row:
            rank, letter = view.grid.ranks[place], view.grid.states[place]
            style = _BLAMED if rank in blamed else STYLES[BY_LETTER[letter]]
            if rank == selected:
                style += " reverse"
            line.append(letter if letters else CELL, style)
            line.append(" ")
        line.rstrip()
        lines.append(line)
    return lines


def verdict_lines(verdict: Verdict | None, width: int) -> list[Text]:
    """Return the verdict in brief: who, where, what to do, what not to try."""
    if verdict is None:
        return [Text("nothing is known to be wrong", _LABEL)]
    lines = [Text(clean(verdict.cause), "bold red")]
    lines += _labelled("what", [verdict.summary], "bold red", width)
    places = [
        f"{clean(one.file)}:{one.line} in {one.function}: {one.code}"
        for one in verdict.culprits[:2]
        if one.file
    ]
    lines += _labelled("at", places, "bold red", width)
    lines += _labelled("do", verdict.do[:_MOST_LINES_OF_TEXT], "green", width)
    dont = [one.removeprefix("do not ") for one in verdict.dont[:2]]
    lines += _labelled("don't", dont, "yellow", width)
    return lines + _labelled(verdict.confidence, [verdict.because], _LABEL, width)


def rank_lines(rank: RankView, width: int, most_frames: int = 8) -> list[Text]:
    """Return one rank: what it does, where, how far it is in its groups, its stack."""
    where = f"{rank.host}, pid {rank.pid}" if rank.pid else rank.host
    first = f"{rank.doing} ({where})" if where else rank.doing
    if rank.stalled_for >= 1:
        first += f", no progress for {durations.text(rank.stalled_for)}"
    lines = _labelled(f"rank {rank.rank}", [first], STYLES[rank.state], width)
    groups: list[str] = []
    for group in rank.groups[:3]:
        text = f"{group.text}: {group.completed} of {group.enqueued} operations completed"
        if rank.healthy is not None and group.their_enqueued is not None:
            text += f"; rank {rank.healthy}: {group.their_completed} of {group.their_enqueued}"
        groups.append(text)
    lines += _labelled("group", groups, _LABEL, width)
    frames = list(reversed(rank.stack))[:most_frames]
    texts = [
        f"{Path(clean(one.file)).name}:{one.line} {one.function}"
        + (f": {one.text}" if one.text else "")
        for one in frames
    ]
    return lines + _labelled("stack", texts, _LABEL, width)


def once(view: JobView, headline: str, name: str, width: int, *, letters: bool) -> Iterable[Text]:
    """Return a snapshot of everything, for `--once`."""
    yield head(view, headline, name, width)
    yield legend(view, width, letters=letters)
    yield Text()
    yield from grid(view, width, letters=letters)
    yield Text()
    yield from verdict_lines(view.verdict, width)


def step_text(seconds: float) -> str:
    """Write the time of a step, which may be short.

    Example:
        >>> step_text(0.0213)
        '21 ms'
    """
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else durations.text(seconds)


def _labelled(label: str, texts: Sequence[str], style: str, width: int) -> list[Text]:
    """Return texts below each other, the label in front of the first, wrapped beside it."""
    lines: list[Text] = []
    room = max(20, width - _GUTTER)
    for text in texts:
        for piece in wrap(clean(text), room, break_on_hyphens=False):
            first = "" if lines else clean(label)
            line = Text(f"{first:>{_GUTTER - 2}}  ", style=style)
            line.append(piece, "default")
            lines.append(line)
    return lines


def stack_lines(threads: Sequence[str]) -> list[Text]:
    """Return the stacks of all threads of a rank, harmless whatever they hold."""
    return [
        Text(clean(line) if not line.startswith(" ") else f"  {clean(line)}")
        for thread in threads
        for line in [*thread.splitlines(), ""]
    ]
