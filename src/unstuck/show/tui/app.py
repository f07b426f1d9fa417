"""The live screen: it asks once a second and draws; whoever looks costs the job nothing."""

from collections.abc import Callable
from typing import ClassVar

from rich.console import Group
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widgets import Footer, Static

from unstuck.errors import UnstuckError
from unstuck.explain.view.job_view import JobView
from unstuck.explain.view.rank_view import RankView
from unstuck.pipelines.job_status import JobState
from unstuck.show import runs, status_text
from unstuck.show.runs import Run
from unstuck.show.tui import drawing

EVERY = 1.0

Step = Callable[[int, list[list[int]]], int]
"""From the place of a rank and the rows of the grid to another place."""


class StackScreen(ModalScreen[None]):
    """The stacks of all threads of one rank."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "back")]
    CSS = "StackScreen > VerticalScroll { background: $surface; padding: 1 2; }"

    def __init__(self, rank: int, lines: list[Text]) -> None:
        super().__init__()
        self._rank = rank
        self._lines = lines

    def compose(self) -> ComposeResult:
        """Show the text, which scrolls."""
        with VerticalScroll():
            yield Static(Group(Text(f"Stacks of rank {self._rank}\n", "bold"), *self._lines))
        yield Footer()


class Top(App[int]):
    """Shows one run until it is left."""

    TITLE = "unstuck top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head, #legend { height: 1; padding: 0 1; }
    #legend { margin-bottom: 1; }
    #grid { height: 1fr; min-height: 4; padding: 0 1; }
    #verdict, #rank { height: auto; max-height: 9; padding: 0 1; border-top: solid $primary; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("left,h", "move(-1)", "rank", key_display="\u2190\u2192"),
        Binding("right,l", "move(1)", show=False),
        Binding("up,k", "row(-1)", "row", key_display="\u2191\u2193"),
        Binding("down,j", "row(1)", show=False),
        Binding("c", "culprit", "culprit"),
        Binding("enter,s", "stacks", "stacks", key_display="enter"),
        Binding("d", "dump", "dump"),
        Binding("space", "hold", "freeze"),
    ]

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run
        self._view: JobView | None = None
        self._rank: RankView | None = None
        self._headline = ""
        self._selected: int | None = None
        self._held = False
        self._timer: Timer | None = None

    @property
    def shown_rank(self) -> int | None:
        """The rank whose details are shown."""
        return self._rank.rank if self._rank else None

    def compose(self) -> ComposeResult:
        """Lay out the screen from top to bottom."""
        yield Static(f"asking {self._run.shown} ...", id="head")
        yield Static(id="legend")
        with VerticalScroll(id="grid"):
            yield Static(id="cells")
        yield Static(id="verdict")
        yield Static(id="rank")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to ask."""
        self._timer = self.set_interval(EVERY, self._ask)
        self._ask()

    def _ask(self) -> None:
        if not self._held:
            self.run_worker(self._look, thread=True, exclusive=True, group="look")

    def _look(self) -> None:
        """Ask for the job and the rank that is selected; runs in a thread of its own."""
        status = runs.status(self._run)
        view: JobView | None = None
        rank: RankView | None = None
        if status.state not in (JobState.ENDED, JobState.UNWATCHED):
            try:
                view = runs.view(self._run)
                chosen = self._choose(view)
                rank = runs.rank(self._run, chosen) if chosen is not None else None
            except UnstuckError:
                pass  # it ends at this moment: the next look says so
        self.call_from_thread(self._take, status_text.headline(status), view, rank)

    def _choose(self, view: JobView) -> int | None:
        if self._selected is not None:
            return self._selected
        return view.culprits[0] if view.culprits else next(iter(view.grid.ranks), None)

    def _take(self, headline: str, view: JobView | None, rank: RankView | None) -> None:
        self._headline = headline
        self._view = view or self._view
        self._rank = rank or self._rank
        self._draw()

    def _draw(self) -> None:
        width = self.size.width - 2
        head = self.query_one("#head", Static)
        if self._view is None:
            head.update(Text(f"{self._headline}  {self._run.shown}"))
            return
        head.update(drawing.head(self._view, self._headline, self._run.name, width))
        self.query_one("#legend", Static).update(drawing.legend(self._view, width))
        cells = drawing.grid(self._view, width - 1, selected=self.shown_rank)
        self.query_one("#cells", Static).update(Group(*cells))
        verdict = drawing.verdict_lines(self._view.verdict, width)
        self.query_one("#verdict", Static).update(Group(*verdict))
        if self._rank is not None:
            self.query_one("#rank", Static).update(Group(*drawing.rank_lines(self._rank, width)))

    # --- keys

    def action_move(self, by: int) -> None:
        """Select the next rank, or the one before."""
        self._select(lambda place, _rows: place + by)

    def action_row(self, by: int) -> None:
        """Select the rank below, or above."""

        def step(place: int, rows: list[list[int]]) -> int:
            number = next(i for i, row in enumerate(rows) if place in row)
            column = rows[number].index(place)
            target = rows[max(0, min(number + by, len(rows) - 1))]
            return target[min(column, len(target) - 1)]

        self._select(step)

    def action_culprit(self) -> None:
        """Select the culprit, or the next one."""
        if self._view is None or not self._view.culprits:
            self.notify("nobody is blamed")
            return
        blamed = self._view.culprits
        now = self.shown_rank
        after = (blamed.index(now) + 1) % len(blamed) if now in blamed else 0
        self._selected = blamed[after]
        self._ask()

    def action_hold(self) -> None:
        """Freeze the screen, or go on."""
        self._held = not self._held
        self.notify("frozen; space to go on" if self._held else "live again")

    def action_stacks(self) -> None:
        """Take the stacks of the selected rank and show them."""
        if self._rank is not None:
            self.run_worker(self._take_stacks, thread=True, exclusive=True, group="stacks")

    def _take_stacks(self) -> None:
        rank = self._rank.rank if self._rank else 0
        try:
            found = runs.stacks(self._run, [rank]).get(rank)
        except UnstuckError as error:
            self.call_from_thread(self.notify, error.message, severity="error")
            return
        lines = drawing.stack_lines(found["threads"] if found else ())
        screen = StackScreen(rank, lines or [Text("no stack could be taken")])
        self.call_from_thread(self.push_screen, screen)

    def action_dump(self) -> None:
        """Store the job as it is."""
        self.notify("storing the job ...")
        self.run_worker(self._dump, thread=True, exclusive=True, group="dump")

    def _dump(self) -> None:
        try:
            text = f"stored in {runs.dump(self._run)}"
        except UnstuckError as error:
            text = error.message
        self.call_from_thread(self.notify, text)

    def _select(self, step: Step) -> None:
        view = self._view
        if view is None or not view.grid.ranks:
            return
        now = self._rank.rank if self._rank else view.grid.ranks[0]
        place = view.grid.ranks.index(now) if now in view.grid.ranks else 0
        rows = drawing.places(view, self.size.width - 3)
        chosen = max(0, min(step(place, rows), len(view.grid.ranks) - 1))
        self._selected = view.grid.ranks[chosen]
        self._rank = None
        self._ask()
