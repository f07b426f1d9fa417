"""The composition root: joins collect, diagnose, explain and act; the only file that knows all.

    snapshot -> diagnose -> explain -> policy -> dump, report
                   └── evidence requests go back to the agents

Run as `python -m unstuck.pipeline`, this is the hub process of a job.
"""

import argparse
import asyncio
import os
import shlex
import signal
import socket
import sys
from pathlib import Path

from unstuck.act import policy
from unstuck.act.ledger import Ledger
from unstuck.collect import bundle
from unstuck.collect.hub import Hub
from unstuck.console import say
from unstuck.diagnose.verdict import diagnose
from unstuck.errors import UnstuckError
from unstuck.explain.advice import advise
from unstuck.explain.report import machine, terminal
from unstuck.model.action import Action, Told
from unstuck.model.evidence import EvidenceRequest
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Verdict

_MOVES = 1.0


class Pipeline:
    """Judges snapshots and acts on the verdicts."""

    def __init__(self, run: Path, command: list[str], host: str, *, as_json: bool = False) -> None:
        self._run = run
        self._as_json = as_json
        self._command = command
        self._host = host
        self._ledger = Ledger(run / "ledger.jsonl")
        self._history: tuple[Told, ...] = ()
        self._open: Verdict | None = None
        self._mentioned: set[tuple[int, str]] = set()
        self.hub: Hub | None = None

    def judge(self, snapshot: Snapshot) -> tuple[EvidenceRequest, ...]:
        """Look at the job once; return what else should be looked at."""
        self._mention_unobserved(snapshot)
        diagnosis = diagnose(snapshot)
        if diagnosis.verdict is not None:
            self._act(snapshot, advise(diagnosis.verdict))
        elif self._open is not None:
            self._note_recovery(self._open, snapshot)
        return diagnosis.requests

    def _act(self, snapshot: Snapshot, verdict: Verdict) -> None:
        actions = policy.plan(verdict, self._history)
        if not actions:
            return
        self._open = verdict
        self._history = (*self._history, Told.of(verdict))
        where: Path | None = None
        for action in actions:
            self._write_down(action, verdict)
            if action is Action.DUMP:
                where = self._dump(snapshot, verdict)
            elif action is Action.REPORT:
                self._report(verdict, where)

    def _write_down(self, action: Action, verdict: Verdict) -> None:
        """Neither act changes the job, so a full disk is no reason to keep the report back."""
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

    def _report(self, verdict: Verdict, where: Path | None) -> None:
        if self._as_json:
            sys.stderr.write(machine.line(verdict))
        else:
            block = terminal.render_for(sys.stderr, verdict, bundle=where)
            sys.stderr.write(f"\n{block}\n")
        sys.stderr.flush()
        if self.hub is not None:
            text = f"{verdict.summary} ({verdict.cause}; details at {self._host})"
            self.hub.say(text, but=self._host)

    def _note_recovery(self, verdict: Verdict, snapshot: Snapshot) -> None:
        """The stall is over when every rank that was part of it moves again."""
        if verdict.cause in policy.FATAL or verdict.attempt != snapshot.attempt:
            self._open = None
            return
        part = {*verdict.victims, *(culprit.rank for culprit in verdict.culprits)}
        states = [state for state in snapshot.ranks if state.rank in part]
        if all(s.stalled_for < _MOVES and s.process.gone_for is None for s in states):
            self._open = None
            self._history = tuple(told for told in self._history if told != Told.of(verdict))
            say("the job moves again")

    def _mention_unobserved(self, snapshot: Snapshot) -> None:
        for state in snapshot.ranks:
            key = (state.process.pid, state.unobserved)
            if state.unobserved and key not in self._mentioned:
                self._mentioned.add(key)
                say(f"rank {state.rank} is unobserved: {state.unobserved}")


def main() -> None:
    """Run the hub of one job on a listening socket that `unstuck run` opened."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--listener", type=int, required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--command", required=True)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    # Ctrl-C belongs to the job; this process ends when the job has ended.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    command = shlex.split(options.command)
    pipeline = Pipeline(options.run, command, options.host, as_json=options.json)
    pipeline.hub = Hub(os.environ.pop("UNSTUCK_TOKEN"), pipeline.judge)
    with socket.socket(fileno=options.listener) as listener:
        asyncio.run(pipeline.hub.serve(listener))


if __name__ == "__main__":
    main()
