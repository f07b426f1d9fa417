"""Bugs of unstuck itself, met while a job is watched: said once, kept for a report, survived."""

import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from unstuck.collect import bundle
from unstuck.console import say
from unstuck.errors import UnstuckError
from unstuck.model.diagnosis import BrokenRule
from unstuck.model.requests import EvidenceRequest
from unstuck.model.snapshot import Snapshot

FOLDER = "bugs"
_MOST = 20
"""What fails in more ways than this is reported well enough."""

Judge = Callable[[Snapshot], tuple[EvidenceRequest, ...]]


class OwnBugs:
    """Keeps the state of the job that a part of unstuck could not deal with, below the run."""

    def __init__(self, run: Path, command: list[str]) -> None:
        self._folder = run / FOLDER
        self._command = command
        self._seen: set[tuple[str, str]] = set()

    def note(self, broken: Iterable[BrokenRule], snapshot: Snapshot) -> None:
        """Report each kind of failure once."""
        for one in broken:
            kind = (one.rule, one.error.partition(":")[0])
            if kind in self._seen or len(self._seen) >= _MOST:
                continue
            self._seen.add(kind)
            say(
                f"a bug in unstuck: {one.rule!r} failed ({one.error}) and is left out; the rest is"
                f" judged. {self._keep(one, snapshot)}"
            )

    def guard(self, judge: Judge) -> Judge:
        """Return a `judge` that reports what it raises instead of ending the hub."""

        def guarded(snapshot: Snapshot) -> tuple[EvidenceRequest, ...]:
            try:
                return judge(snapshot)
            except Exception as error:  # noqa: BLE001 - the next snapshot must be judged too
                trace = "".join(traceback.format_exception(error))
                text = f"{type(error).__name__}: {error}"
                self.note([BrokenRule("judging this job", text, trace)], snapshot)
                return ()

        return guarded

    def _keep(self, one: BrokenRule, snapshot: Snapshot) -> str:
        about = {"command": self._command, "rule": one.rule, "error": one.error, "trace": one.trace}
        try:
            return (
                f"Please report it with {bundle.write(self._folder, snapshot, None, about=about)}"
            )
        except UnstuckError as error:
            return f"Please report it ({error.message})"
