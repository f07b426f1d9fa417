"""The incident as Markdown: to be pasted into an issue or a chat."""

from unstuck.console import clean
from unstuck.diagnose.text import ranks_text
from unstuck.explain.report.incident.contents import Report
from unstuck.explain.report.incident.tags import clean_text
from unstuck.explain.view.stack_tree import StackNode, walk
from unstuck.model.verdict import Verdict

_MOST_EVIDENCE = 12
_MOST_FRAMES = 40
_MOST_CULPRITS = 5


def render(report: Report) -> str:
    """Return the verdict, its evidence and the merged stacks as Markdown.

    Example:
        render(contents(snapshot, verdict, about))
    """
    verdict = report.verdict
    if verdict is None:
        return "**unstuck**: nothing is wrong in this snapshot\n"
    parts = (*of_verdict(verdict), _stacks(report), _end(report))
    return "\n\n".join(part for part in parts if part) + "\n"


def of_verdict(verdict: Verdict) -> list[str]:
    """Return the verdict's own paragraphs."""
    return [
        f"**unstuck: {verdict.cause}** ({verdict.confidence})",
        text(verdict.summary),
        _culprits(verdict),
        _list("Do", verdict.do),
        _list("Do not", [one.removeprefix("do not ") for one in verdict.dont]),
        _list("Who waits for whom", verdict.chain),
        _evidence(verdict),
        _alternatives(verdict),
    ]


def text(content: str) -> str:
    """Make harmless what a log or a host said: no markup, no mention, no link, one line.

    Example:
        >>> text("<b>@all</b>")
        '&lt;b>@\u200ball&lt;/b>'
    """
    safe = clean_text(content).replace("<", "&lt;").replace("@", "@\u200b")
    for sign in "*[]|":
        safe = safe.replace(sign, f"\\{sign}")
    return safe


def _code(content: str) -> str:
    """Show something as code; a backtick would end it."""
    return f"`{clean(content).replace('`', chr(39))}`"


def _culprits(verdict: Verdict) -> str:
    lines: list[str] = []
    for one in verdict.culprits[:_MOST_CULPRITS]:
        where = f" at {_code(f'{one.file}:{one.line}')}" if one.file else ""
        within = f" in {_code(one.function)}" if one.function else ""
        code = f"\n  {_code(one.code.strip())}" if one.code else ""
        lines.append(
            f"- rank {one.rank} on {text(one.host)} {text(one.doing)}{where}{within}{code}"
        )
    rest = [one.rank for one in verdict.culprits[_MOST_CULPRITS:]]
    if rest:
        lines.append(f"- and {ranks_text(rest)}")
    if verdict.victims:
        lines.append(f"- waiting: {ranks_text(verdict.victims)}")
    return "\n".join(lines)


def _list(title: str, items: tuple[str, ...] | list[str]) -> str:
    if not items:
        return ""
    return "\n".join([f"**{title}**", "", *(f"- {_advice(one)}" for one in items)])


def _advice(item: str) -> str:
    """Keep what is in backticks as code."""
    pieces = item.split("`")
    return "".join(_code(one) if i % 2 else text(one) for i, one in enumerate(pieces))


def _evidence(verdict: Verdict) -> str:
    if not verdict.evidence:
        return ""
    rows = [
        f"| {one.role} | {text(one.source)} | {text(one.text)} |"
        for one in verdict.evidence[:_MOST_EVIDENCE]
    ]
    return "\n".join(
        ["**Evidence**", "", "| shows | source | observation |", "|---|---|---|", *rows]
    )


def _alternatives(verdict: Verdict) -> str:
    items = [f"{one.cause}: {one.decide_by}" for one in verdict.alternatives]
    return _list("What else it could be, and what would decide", items)


def _stacks(report: Report) -> str:
    lines = [_frame(depth, node) for depth, node in walk(report.stacks.roots)]
    if not lines:
        return ""
    shown = "\n".join(lines[:_MOST_FRAMES])
    return f"**All ranks' stacks, merged**\n\n```text\n{shown}\n```"


def _frame(depth: int, node: StackNode) -> str:
    name = node.file.rsplit("/", 1)[-1]
    line = f"{'  ' * depth}{node.function} ({name}:{node.line}) [{node.count}: {node.ranks}]"
    return f"{'  ' * depth}{clean(line)}".replace("```", "'''")


def _end(report: Report) -> str:
    return f"{text(report.title)}, unstuck {text(report.unstuck)} {text(report.written_at)}".strip()
