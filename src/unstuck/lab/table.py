"""The score as tables, followed by a line for each run that was wrong or did not count."""

from collections.abc import Iterable, Mapping

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from unstuck.lab.run import Run
from unstuck.lab.scenario import Scenario
from unstuck.lab.score import NOTHING, Row, Score

_MOST_COLUMNS = 8


def report(score: Score, machine: Mapping[str, str | int | float]) -> RenderableType:
    """Render the whole score."""
    parts: list[RenderableType] = [rows(score.rows, machine)]
    if len(score.confusion) > 1:
        parts.append(confusion(score.confusion))
    parts += [*_latencies(score), Text(summary(score))]
    parts += [Text(f"wrong: {j.scenario} {j.number}: {j.wrong}", "red") for j in score.wrong]
    parts += [Text(_not_counted(run), "yellow") for run in score.not_counted]
    return Group(*parts)


def rows(all_rows: Iterable[Row], machine: Mapping[str, str | int | float]) -> Table:
    """Render one row per scenario."""
    on = f"{machine['cores']} cores, load {machine['load']} before, torch {machine['torch']}"
    table = Table(title=on, title_justify="left")
    table.add_column("scenario", no_wrap=True)
    table.add_column("right cause")
    for heading in ("cause", "culprit", "innocents\naccused"):
        table.add_column(heading, justify="right")
    table.add_column("seconds to verdict\nmin / median / max", justify="right", no_wrap=True)
    table.add_column("goal", no_wrap=True)
    for row in all_rows:
        times = (row.min, row.p50, row.max)
        spread = " / ".join(f"{t:.1f}" for t in times if t is not None) or "-"
        goal = f"{row.goal:g} s: " if row.goal else ""
        verdict = "met" if row.met else "[red]missed[/red]"
        culprit = f"{row.culprits_right}/{row.runs}" if row.kind != "healthy" else "-"
        cause = f"{row.causes_right}/{row.runs}"
        cells = (row.expected, cause, culprit, str(row.innocents), spread, goal + verdict)
        table.add_row(escape(row.scenario), *cells)
    return table


def confusion(matrix: Mapping[str, Mapping[str, int]]) -> Table:
    """Render expected against reported causes."""
    said = sorted({cause for counts in matrix.values() for cause in counts} - {NOTHING})
    columns = [*said, *([NOTHING] if any(NOTHING in c for c in matrix.values()) else [])]
    if len(columns) > _MOST_COLUMNS:
        return _confusion_in_words(matrix)
    table = Table(title="right cause (rows) and cause named (columns)", title_justify="left")
    table.add_column("")
    for column in columns:
        table.add_column(column.replace("-", "-\n"), justify="right")
    for expected, counts in matrix.items():
        right = {*expected.split(" or ")}
        cells = [_cell(counts.get(column, 0), right=column in right) for column in columns]
        table.add_row(expected, *cells)
    return table


def _confusion_in_words(matrix: Mapping[str, Mapping[str, int]]) -> Table:
    """Render a matrix that is too wide for a terminal as a list: most cells are empty."""
    table = Table("right cause", "cause named", title="runs by cause", title_justify="left")
    for expected, counts in matrix.items():
        right = {*expected.split(" or ")}
        most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        said = (f"{_cell(count, right=cause in right)} {cause}" for cause, count in most)
        table.add_row(expected, ", ".join(said))
    return table


def _cell(count: int, *, right: bool) -> str:
    if not count:
        return ""
    return f"[green]{count}[/green]" if right else f"[red]{count}[/red]"


def _latencies(score: Score) -> Iterable[Table]:
    if not score.latencies:
        return
    table = Table(title="seconds from the onset to the verdict", title_justify="left")
    table.add_column("kind")
    for heading in ("runs", "p50", "p95", "max", "goal for p95"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for each in score.latencies:
        times = (f"{t:.2f}" for t in (each.p50, each.p95, each.max))
        met = "met" if each.met else "[red]missed[/red]"
        table.add_row(each.kind, str(each.runs), *times, f"{each.goal:g}", met)
    yield table


def summary(score: Score) -> str:
    """Summarize the score in a sentence."""
    parts = [f"{score.right} of {score.runs} runs right in every way"]
    if score.culprits_asked:
        parts.append(f"culprit exact in {score.culprits_right} of {score.culprits_asked}")
        parts.append(f"innocents accused: {score.innocents}")
    if score.healthy_runs:
        rate = score.false_alarms_per_hour
        each = f", {rate:.2f} an hour" if rate is not None else ""
        watched = f"{score.healthy_hours:.2f} healthy hours"
        parts.append(f"false alarms: {score.false_alarms} in {watched}{each}")
        parts.append(f"notices of healthy jobs: {score.notices}")
    return "; ".join(parts) + "."


def _not_counted(run: Run) -> str:
    reason = f"skipped: {run.skipped}" if run.skipped else f"not counted: {run.trouble}"
    return f"{run.scenario} {run.number}: {reason}"


def listing(scenarios: Iterable[Scenario], why_not: Mapping[str, str]) -> Table:
    """Render all scenarios and whether they can run here."""
    table = Table()
    for heading in ("scenario", "kind", "right cause", "fault", "hosts", "here"):
        table.add_column(heading, no_wrap=heading in ("scenario", "kind"))
    for each in scenarios:
        name = type(each.fault).__struct_config__.tag
        fault = f"{name} {each.fault.where()}".strip()
        if each.kind == "healthy" and name == "inside":
            fault = "none"
        here = why_not[each.name] or "yes"
        table.add_row(each.name, each.kind, each.expected, fault, str(each.hosts), escape(here))
    return table
