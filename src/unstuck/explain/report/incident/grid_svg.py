"""All ranks by host, drawn: a block of cells for each host, or one raster where there are many."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby, pairwise

from msgspec import Struct

from unstuck.diagnose.text import ranks_text
from unstuck.explain.report.incident.tags import Html, tag
from unstuck.explain.view.doing_now import BY_LETTER, State
from unstuck.explain.view.job_view import Grid

_WIDTH = 920
_MANY = 4096
"""From here on hosts have no blocks of their own: a cell is a few pixels then."""
_MOST_RUNS = 20_000
_GAP = 10
_LABEL = 15

WORST_FIRST = tuple(reversed(State))


class _Size(Struct, frozen=True):
    cell: int
    numbered: bool = False


def draw(grid: Grid, culprits: tuple[int, ...]) -> Html:
    """Draw the grid; culprits have a ring, every block says which ranks it shows.

    Example:
        draw(view.grid, view.culprits)
    """
    if not grid.ranks:
        return Html("")
    return _raster(grid, culprits) if len(grid.ranks) > _MANY else _blocks(grid, culprits)


def _blocks(grid: Grid, culprits: tuple[int, ...]) -> Html:
    count = len(grid.ranks)
    size = _Size(26, numbered=True) if count <= 128 else _Size(14 if count <= 1024 else 9)
    across = min(16, max((host.count for host in grid.hosts), default=1))
    parts: list[Html] = []
    x = y = height = 0
    for host in grid.hosts:
        name = host.name or "never seen"
        columns = min(across, host.count)
        rows = -(-host.count // across)
        width = max(columns * size.cell, 7 * min(len(name), 16))
        if x and x + width > _WIDTH:
            x, y, height = 0, y + height + _GAP, 0
        parts.append(tag("text", name[:24], x=x, y=y + 11, class_="host"))
        for index in range(host.count):
            place = host.first + index
            at = (x + index % across * size.cell, y + _LABEL + index // across * size.cell)
            parts.append(_cell(grid, place, at, size, culprits))
        height = max(height, _LABEL + rows * size.cell)
        x += width + _GAP
    return _svg(parts, y + height)


def _cell(
    grid: Grid, place: int, at: tuple[int, int], size: _Size, culprits: tuple[int, ...]
) -> Html:
    rank, state = grid.ranks[place], BY_LETTER[grid.states[place]]
    side, blamed = size.cell - 2, rank in culprits
    number = None
    if size.numbered:
        middle = at[0] + side / 2
        number = tag("text", str(rank), x=middle, y=at[1] + side / 2 + 4, class_="number")
    return tag(
        "g",
        tag("title", f"rank {rank}: {state}{', held responsible' if blamed else ''}"),
        tag(
            "rect",
            x=at[0] + 1,
            y=at[1] + 1,
            width=side,
            height=side,
            class_=f"s-{state}{' blamed' if blamed else ''}",
        ),
        number,
    )


def _raster(grid: Grid, culprits: tuple[int, ...]) -> Html:
    """Draw one path for each state out of its runs: small, whatever the number of ranks."""
    cell = 6 if len(grid.ranks) <= 16_384 else 3
    columns = _WIDTH // cell
    letters, step = _thinned(grid.states)
    paths: defaultdict[str, list[str]] = defaultdict(list)
    for letter, first, length in _runs(letters, columns):
        x, y = first % columns * cell, first // columns * cell
        paths[letter].append(f"M{x} {y}h{length * cell}v{cell}h-{length * cell}z")
    parts = [
        tag("path", tag("title", BY_LETTER[letter]), d="".join(d), class_=f"s-{BY_LETTER[letter]}")
        for letter, d in paths.items()
    ]
    place_of = {rank: place // step for place, rank in enumerate(grid.ranks)} if culprits else {}
    for rank in culprits[:64]:
        place = place_of.get(rank)
        if place is not None:
            x, y = place % columns * cell + cell / 2, place // columns * cell + cell / 2
            title = tag("title", ranks_text([rank]))
            parts.append(tag("circle", title, cx=x, cy=y, r=9, class_="ring"))
    return _svg(parts, -(-len(letters) // columns) * cell)


def _runs(letters: str, columns: int) -> Iterator[tuple[str, int, int]]:
    for start in range(0, len(letters), columns):
        place = start
        for letter, run in groupby(letters[start : start + columns]):
            length = sum(1 for _ in run)
            yield letter, place, length
            place += length


def _thinned(letters: str) -> tuple[str, int]:
    """Let one cell stand for several ranks, by the worst of them, where the runs are too many."""
    changes = sum(a != b for a, b in pairwise(letters))
    step = -(-changes // _MOST_RUNS) or 1
    if step == 1:
        return letters, 1
    order = {state: index for index, state in enumerate(WORST_FIRST)}
    parts = (letters[i : i + step] for i in range(0, len(letters), step))
    return "".join(min(part, key=lambda one: order[BY_LETTER[one]]) for part in parts), step


def _svg(parts: list[Html], height: int) -> Html:
    return tag(
        "svg",
        *parts,
        viewBox=f"-8 -2 {_WIDTH + 16} {height + 10}",
        width=_WIDTH + 16,
        role="img",
        aria_label="all ranks by host",
        class_="grid",
    )
