"""Store and report a verdict: the acts that never touch the job."""

import sys
from pathlib import Path

from msgspec.structs import replace

from unstuck.act.ledger import Ledger
from unstuck.collect import bundle
from unstuck.collect.hub.hub import Hub
from unstuck.console import say
from unstuck.errors import UnstuckError
from unstuck.explain.report import machine, terminal
from unstuck.model.action import Action
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Verdict

_MOST_VICTIMS = 1024
"""A verdict is sent to every node: in a job of 100,000 ranks, not with a list of all that wait."""


def shortened(verdict: Verdict) -> Verdict:
    """Return the verdict with at most so many victims as may be sent to everybody."""
    return replace(verdict, victims=verdict.victims[:_MOST_VICTIMS])


class Reports:
    """Writes bundles into the run directory, and verdicts to people and ranks."""

    def __init__(self, run: Path, command: list[str], host: str, *, as_json: bool = False) -> None:
        self._run = run
        self._command = command
        self._host = host
        self._as_json = as_json
        self._ledger = Ledger(run / "ledger.jsonl")
        self.hub: Hub | None = None

    def announce(self, text: str) -> None:
        """Say one line to the people at every node."""
        say(text)
        if self.hub is not None:
            self.hub.say(text, but=self._host)

    def report(self, verdict: Verdict, snapshot: Snapshot) -> Path | None:
        """Store the incident, then show the verdict; return where it is stored."""
        self._write_down(Action.DUMP, verdict)
        where = self._dump(snapshot, verdict)
        self._write_down(Action.REPORT, verdict)
        if self._as_json:
            sys.stderr.write(machine.line(verdict))
        else:
            sys.stderr.write(f"\n{terminal.render_for(sys.stderr, verdict, bundle=where)}\n")
        sys.stderr.flush()
        if self.hub is not None:
            text = f"{verdict.summary} ({verdict.cause}; details at {self._host})"
            self.hub.say(text, but=self._host)
        self.publish(verdict)
        return where

    def publish(self, verdict: Verdict | None) -> None:
        """Send a verdict to the ranks that subscribed; None: nothing is wrong any more."""
        if self.hub is None:
            return
        text = machine.line(shortened(verdict) if verdict else None)
        self.hub.publish("verdicts", text, holds=verdict is not None)

    def _write_down(self, action: Action, verdict: Verdict) -> None:
        """Neither act changes the job, so a full disk is no reason to withhold the report."""
        try:
            self._ledger.write(action, summary=verdict.summary, cause=verdict.cause)
        except OSError as error:
            if action is Action.DUMP:
                say(f"could not write the ledger: {(error.strerror or str(error)).lower()}")

    def _dump(self, snapshot: Snapshot, verdict: Verdict) -> Path | None:
        try:
            return bundle.write(self._run, snapshot, verdict, about={"command": self._command})
        except UnstuckError as error:
            say(error.message)
            return None
