"""The progress of a session: a live line on a terminal, otherwise one line per run."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bar

from unstuck.lab.run import Run
from unstuck.lab.runner import Say
from unstuck.lab.scenario import Scenario
from unstuck.lab.score import judge


class Progress:
    """Writes to stderr, so that stdout has only the result."""

    def __init__(self, total: int, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        columns = (
            SpinnerColumn(),
            BarColumn(20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[now]}"),
        )
        live = self._console.is_terminal
        self._bar = Bar(*columns, console=self._console, transient=True, disable=not live)
        self._task = self._bar.add_task("runs", total=total, now="")
        self._now: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def begin(self, scenario: Scenario, number: int) -> Say:
        """Show what is running and what it is waiting for; only on a terminal."""
        title = f"{scenario.name} {number}"

        def say(text: str) -> None:
            self._now[title] = text
            self._show()

        say("starting")
        return say

    def end(self, scenario: Scenario, run: Run) -> None:
        """Print one line about a run."""
        self._now.pop(f"{run.scenario} {run.number}", None)
        self._show()
        self._console.print(line(scenario, run), soft_wrap=True)
        self._bar.advance(self._task)

    def _show(self) -> None:
        now = "  ".join(f"{title}: {text}" for title, text in self._now.items())
        self._bar.update(self._task, now=escape(now))


def line(scenario: Scenario, run: Run) -> str:
    """Describe a run in one line."""
    name = f"{escape(run.scenario)} {run.number}"
    if run.skipped:
        return f"[dim]{name}: skipped: {escape(run.skipped)}[/dim]"
    if run.trouble:
        return f"[yellow]{name}: not counted: {escape(run.trouble)}[/yellow]"
    wrong = judge(scenario, run).wrong
    if wrong:
        return f"[red]{name}: WRONG: {escape(wrong)}[/red]"
    ranks = sorted({each.rank for each in run.culprits})
    took = "" if run.seconds is None else f" after {run.seconds:.2f} s"
    whom = f" of {'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))}"
    return f"{name}: right: {run.cause or 'no verdict'}{whom if ranks else ''}{took}"
