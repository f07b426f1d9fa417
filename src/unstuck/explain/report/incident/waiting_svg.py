"""Who waits for whom, drawn."""

from collections import defaultdict

from unstuck.console import clean
from unstuck.explain.report.incident.tags import Html, join, tag
from unstuck.explain.view.waiting import Arrow, Box, BoxKind, Picture

_WIDTH, _HEIGHT = 190, 62
_ACROSS, _DOWN = 236, 80
_MARGIN = 6
_LETTERS = 19
"""Of a title in a box; of a detail there are a few more."""

STYLE = """
.box{stroke-width:1.5;rx:8px}
.box.waiting{fill:#e3eefb;stroke:#4c8dd6}.box.operation{fill:#f4f4f6;stroke:#9aa1ab}
.box.culprit{fill:#fde7e4;stroke:#d43d3d;stroke-width:2.5}
text{font:600 14px system-ui,sans-serif;fill:#1c2129}
text.detail{font-weight:400;font-size:12.5px;fill:#535b66}
.arrow{fill:none;stroke:#7d8590;stroke-width:1.8}.arrow.back{stroke:#d43d3d;stroke-dasharray:5 4}
.head{fill:#7d8590}
@media(prefers-color-scheme:dark){
.box.waiting{fill:#172a41}.box.operation{fill:#262b33;stroke:#69717d}.box.culprit{fill:#431d1d}
text{fill:#e8eaee}text.detail{fill:#aab2bd}}
"""


def draw(shown: Picture, *, alone: bool = False) -> Html:
    """Draw the picture as SVG; `alone` makes it a file of its own, with its colours.

    Example:
        draw(picture(snapshot, verdict))
    """
    places = _places(shown)
    if not places:
        return Html("")
    width = max(x for x, _ in places.values()) + _WIDTH + _MARGIN
    height = max(y for _, y in places.values()) + _HEIGHT + _MARGIN + 22 * _goes_back(shown)
    head = tag(
        "marker",
        tag("path", d="M0 0L9 4.5L0 9z", class_="head"),
        id="head",
        viewBox="0 0 9 9",
        refX="8",
        refY="4.5",
        markerWidth="7",
        markerHeight="7",
        orient="auto",
    )
    return tag(
        "svg",
        tag("style", Html(STYLE)) if alone else None,
        tag("defs", head),
        *(_arrow(one, places) for one in shown.arrows),
        *(_box(one, *places[one.id]) for one in shown.boxes),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label="who waits for whom",
        class_="waiting",
    )


def _places(shown: Picture) -> dict[str, tuple[int, int]]:
    """Place the boxes in columns, each column in the middle of the tallest."""
    columns: defaultdict[int, list[Box]] = defaultdict(list)
    for box in shown.boxes:
        columns[box.column].append(box)
    tallest = max(map(len, columns.values()), default=0)
    places: dict[str, tuple[int, int]] = {}
    for index, column in enumerate(sorted(columns)):
        boxes = columns[column]
        top = _MARGIN + (tallest - len(boxes)) * _DOWN // 2
        for row, box in enumerate(boxes):
            places[box.id] = (_MARGIN + index * _ACROSS, top + row * _DOWN)
    return places


def _goes_back(shown: Picture) -> bool:
    column = {box.id: box.column for box in shown.boxes}
    return any(column[one.source] >= column[one.target] for one in shown.arrows)


def _box(box: Box, x: int, y: int) -> Html:
    detail = "" if box.kind is BoxKind.WAITING else box.detail
    if box.kind is BoxKind.WAITING:
        detail = f"{box.count:,} {'rank' if box.count == 1 else 'ranks'} {box.detail}"
    full = f"{box.title}: {box.detail}" if box.detail else box.title
    lines = _wrap(detail, _LETTERS + 5)
    title_at = y + (_HEIGHT // 2 + 5 if not lines else 24 if len(lines) == 1 else 19)
    return tag(
        "g",
        tag("title", full),
        tag("rect", x=x, y=y, width=_WIDTH, height=_HEIGHT, class_=f"box {box.kind}"),
        tag("text", _cut(box.title, _LETTERS), x=x + 12, y=title_at),
        *(
            tag("text", line, x=x + 12, y=title_at + 17 * (row + 1), class_="detail")
            for row, line in enumerate(lines)
        ),
    )


def _arrow(arrow: Arrow, places: dict[str, tuple[int, int]]) -> Html:
    (x1, y1), (x2, y2) = places[arrow.source], places[arrow.target]
    middle = _HEIGHT // 2
    if x2 > x1:
        start, end, bend = (x1 + _WIDTH, y1 + middle), (x2 - 3, y2 + middle), 28
        path = (
            f"M{start[0]} {start[1]}C{start[0] + bend} {start[1]} "
            f"{end[0] - bend} {end[1]} {end[0]} {end[1]}"
        )
        return tag("path", d=path, class_="arrow", marker_end="url(#head)")
    # Back: below the boxes, which is what makes a circle of waiting visible.
    low = max(y for _, y in places.values()) + _HEIGHT + 18
    start, end = (x1 + _WIDTH // 2 + 20, y1 + _HEIGHT), (x2 + _WIDTH // 2 - 20, y2 + _HEIGHT + 3)
    path = f"M{start[0]} {start[1]}C{start[0]} {low} {end[0]} {low} {end[0]} {end[1]}"
    return tag("path", d=path, class_="arrow back", marker_end="url(#head)")


def _wrap(text: str, width: int) -> list[str]:
    """Break a text into at most two lines."""
    text = clean(text)
    if len(text) <= width:
        return [text] if text else []
    space = text.rfind(" ", 0, width + 1)
    first = space if space > width // 3 else width
    return [text[:first], _cut(text[first:].strip(), width)]


def _cut(text: str, width: int) -> str:
    text = clean(text)
    return text if len(text) <= width else text[: width - 1] + "\u2026"


def as_file(shown: Picture) -> str:
    """Return the picture as an SVG file.

    Example:
        Path("waiting.svg").write_text(as_file(picture(snapshot, verdict)))
    """
    return join(draw(shown, alone=True))
