"""The incident report as one HTML file: no script, nothing to load, light and dark.

It can be mailed, opened from a disk and kept; a policy inside it forbids the browser to run or
fetch anything.
"""

from functools import cache
from pathlib import Path

from unstuck.diagnose.text import ranks_text
from unstuck.explain.report import numbers
from unstuck.explain.report.incident import grid_svg, markdown, waiting_svg
from unstuck.explain.report.incident.contents import Report
from unstuck.explain.report.incident.parts import (
    facts,
    grid_legend,
    group_table,
    host_table,
    rank_section,
    seconds,
    stack_section,
    table,
)
from unstuck.explain.report.incident.tags import Html, block, join, tag
from unstuck.model.verdict import Culprit, Role, Verdict

_MOST_CULPRITS = 3
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_HERE = Path(__file__).parent


@cache
def style() -> str:
    """Return the style sheet of the report."""
    return "".join((_HERE / name).read_text() for name in ("palette.css", "report.css"))


def render(report: Report) -> str:
    """Return the whole HTML file.

    Example:
        Path("report.html").write_text(render(contents(snapshot, verdict, about)))
    """
    verdict = report.verdict
    title = f"{verdict.cause}: {_who(verdict)}" if verdict else "nothing is wrong"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width,initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"unstuck: {title}"),
        tag("style", Html(style())),
    )
    body = tag("body", tag("main", *_sections(report)))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _sections(report: Report) -> list[Html]:
    verdict = report.verdict
    parts = [_top(report)]
    if verdict is not None:
        parts += [_advice(verdict), _waiting(report)]
    parts += [_grid(report), stack_section(report.stacks, report.job.world_size)]
    parts += [rank_section(rank) for rank in report.ranks]
    if verdict is not None:
        parts += [_evidence(verdict), _alternatives(verdict)]
    parts += [_groups(report), _settings(report), _acts(report), _copy(report), _foot(report)]
    return [part for part in parts if part]


def _top(report: Report) -> Html:
    verdict = report.verdict
    if verdict is None:
        return tag("section", tag("h1", "Nothing is wrong in this snapshot"), class_="top fine")
    made = f"{numbers.clock(verdict.made_at)} UTC" if verdict.made_at else ""
    return tag(
        "section",
        tag("span", str(verdict.cause), class_="cause"),
        tag("span", str(verdict.confidence), class_="sure"),
        tag("h1", _headline(verdict)),
        tag("p", verdict.because, class_="soft") if verdict.because else None,
        *(_line(one) for one in verdict.culprits[:_MOST_CULPRITS] if one.file),
        facts(
            ("step", str(verdict.step or report.job.step or "")),
            ("attempt", str(verdict.attempt + 1)),
            ("ranks", f"{report.job.world_size:,}"),
            ("stalled for", seconds(verdict.stalled_seconds)),
            ("a step takes", f"{verdict.slowdown:.1f} times as long" if verdict.slowdown else ""),
            ("since", f"{numbers.clock(verdict.since)} UTC" if verdict.since else ""),
            ("verdict at", made),
            ("waiting", ranks_text(verdict.victims) if verdict.victims else ""),
            ("command", " ".join(report.command)),
        ),
        class_="top",
    )


def _who(verdict: Verdict) -> str:
    blamed = [one.rank for one in verdict.culprits]
    return ranks_text(blamed) if blamed else "no rank to blame"


def _headline(verdict: Verdict) -> str:
    """Return the summary, or who does what."""
    return verdict.summary or f"{_who(verdict)}: {verdict.cause}"


def _line(culprit: Culprit) -> Html:
    place = f"rank {culprit.rank} {culprit.doing}, {culprit.file}:{culprit.line}"
    within = f" in {culprit.function}" if culprit.function else ""
    host = f" ({culprit.host}, pid {culprit.pid})" if culprit.pid else ""
    return tag(
        "div",
        tag("div", place, within, tag("span", host, class_="soft"), class_="place"),
        tag("code", culprit.code) if culprit.code else None,
        class_="line",
    )


def _advice(verdict: Verdict) -> Html:
    do = tag("section", tag("h2", "Do"), _items("ol", verdict.do), class_="do")
    dont = [item.removeprefix("do not ") for item in verdict.dont]
    never = tag("section", tag("h2", "Do not"), _items("ul", dont), class_="dont")
    return tag("div", do, never, class_="two")


def _items(kind: str, items: tuple[str, ...] | list[str]) -> Html:
    return tag(kind, *(tag("li", _with_code(item)) for item in items))


def _with_code(text: str) -> Html:
    """Show what is in backticks as code."""
    pieces = text.split("`")
    return join(*(tag("code", one) if i % 2 else one for i, one in enumerate(pieces)))


def _waiting(report: Report) -> Html:
    if not report.waiting.boxes:
        return Html("")
    more = report.waiting.left_out
    return tag(
        "section",
        tag("h2", "Who waits for whom"),
        waiting_svg.draw(report.waiting),
        tag("p", f"{more} more operations wait behind these", class_="soft small")
        if more
        else None,
    )


def _grid(report: Report) -> Html:
    return tag(
        "section",
        tag("h2", "What every rank was doing"),
        grid_legend(report.job),
        grid_svg.draw(report.job.grid, report.job.culprits),
    )


def _evidence(verdict: Verdict) -> Html:
    if not verdict.evidence:
        return Html("")
    rows = [
        (
            tag("span", str(one.role), class_="root" if one.role is Role.ROOT else "soft"),
            one.source,
            join(one.text, tag("span", f" {one.file}:{one.line}", class_="soft small"))
            if one.file
            else one.text,
        )
        for one in verdict.evidence
    ]
    return tag("section", tag("h2", "Evidence"), table(("shows", "source", "observation"), rows))


def _alternatives(verdict: Verdict) -> Html:
    if not verdict.alternatives:
        return Html("")
    rows = [(str(one.cause), _with_code(one.decide_by)) for one in verdict.alternatives]
    head = tag("h2", "What else it could be, and what would decide")
    return tag("section", head, table(("cause", "what would decide"), rows))


def _groups(report: Report) -> Html:
    parts = (group_table(report.job), host_table(report.job))
    if not any(parts):
        return Html("")
    return tag("section", tag("h2", "Process groups and hosts"), *parts)


def _settings(report: Report) -> Html:
    if report.timeouts is None or not report.timeouts.knobs:
        return Html("")
    rows = [
        (one.name, one.layer, seconds(one.seconds or 0.0) or one.value, one.origin, one.about)
        for one in report.timeouts.knobs
    ]
    head = ("timeout", "layer", "value", "set by", "about")
    return tag("section", tag("h2", "Timeouts in force"), table(head, rows))


def _acts(report: Report) -> Html:
    if not report.ledger:
        return Html("")
    rows = [
        (
            f"{numbers.clock(str(one.get('at', '')))} UTC",
            tag("b", str(one.get("act", ""))),
            str(one.get("summary", "")),
        )
        for one in report.ledger
    ]
    return tag("section", tag("h2", "What unstuck did"), table(("at", "act", "about"), rows))


def _copy(report: Report) -> Html:
    return tag(
        "section",
        tag("h2", "For an issue or a chat"),
        tag("details", tag("summary", "as Markdown"), block(markdown.render(report))),
    )


def _foot(report: Report) -> Html:
    version = f"unstuck {report.unstuck}" if report.unstuck else "unstuck"
    return tag("footer", f"{report.title}, written by {version} {report.written_at}")
