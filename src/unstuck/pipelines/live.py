"""The journey of a watched job, and the only file that knows all of its stages.

    snapshot -> diagnose -> advise -> is it news? -> store, report, recover
                   └── evidence requests go back to the agents

Run as `python -m unstuck.pipelines.live`, this is the hub process of a job.
"""

import argparse
import asyncio
import contextlib
import gc
import os
import resource
import shlex
import signal
import socket
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from unstuck.act import instructions
from unstuck.act.carry_out import Recovery
from unstuck.act.controls import FILE as CONTROLS
from unstuck.act.controls import RefusedError, Steering
from unstuck.act.instructions import Instructions
from unstuck.act.ledger import Ledger
from unstuck.act.news import Incidents
from unstuck.act.notices import Notices
from unstuck.act.report import Reports
from unstuck.clock import SYSTEM, Clock
from unstuck.collect import wire
from unstuck.collect.accepting import report_rarely
from unstuck.collect.hub.hub import Hub
from unstuck.console import say
from unstuck.diagnose.diagnose import diagnose
from unstuck.diagnose.job.patience import learned_patience
from unstuck.diagnose.stuck.host import explain_rank
from unstuck.diagnose.text import ranks_text
from unstuck.explain import recall
from unstuck.model.action import Action
from unstuck.model.requests import EvidenceRequest
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Verdict
from unstuck.pipelines.incident_report import ReportWriter
from unstuck.pipelines.own_bugs import OwnBugs
from unstuck.pipelines.readers import Readers
from unstuck.pipelines.run_record import RunRecord

_REPORTS_WITHIN = 2.5
"""Seconds that the last reports may take when the job has ended."""


class Pipeline:
    """Judges snapshots and acts on the verdicts."""

    def __init__(
        self,
        run: Path,
        command: list[str],
        host: str,
        *,
        as_json: bool = False,
        clock: Clock = SYSTEM,
    ) -> None:
        self._run = run
        self._host = host
        self._clock = clock
        self._ledger = Ledger(run / "ledger.jsonl")
        self._record = RunRecord(run)
        self._incidents = Incidents()
        self.bugs = OwnBugs(run, command)
        self._reports = Reports(run, command, host, as_json=as_json)
        self._notices = Notices(run, as_json=as_json)
        self._steering = Steering(run / CONTROLS)
        self._readers = Readers(run, command, self._incidents, clock)
        self._last: Snapshot | None = None
        self._hub: Hub | None = None
        self.recovery: Recovery | None = None
        self._told = False
        """Followers were told of notices that are not over."""
        self.writer: ReportWriter | None = None
        """Writes a report beside every incident, where set."""

    # --- the journey

    def judge(self, snapshot: Snapshot) -> tuple[EvidenceRequest, ...]:
        """Look at the job once; return what else should be looked at."""
        self._end_pause(snapshot.taken_at)
        snapshot = replace(snapshot, controls=self._steering.at(snapshot.taken_at))
        self._last = snapshot
        self._record.note(snapshot)
        diagnosis = diagnose(snapshot)
        self.bugs.note(diagnosis.broken, snapshot)
        verdict = diagnosis.verdict
        self._notices.look(diagnosis.notices, verdict, snapshot)
        self._tell_followers()
        if verdict is None or verdict.slowdown:
            self._close_stall(snapshot)
        if verdict is not None:
            self._act(verdict, snapshot)
        else:
            self._incidents.note_replacements(snapshot)
        if verdict is not None and verdict.until:
            self._close_stall(snapshot)
        self._close_slow(snapshot)
        if self.recovery is not None:
            self.recovery.look(snapshot)
        return (*diagnosis.requests, *self._readers.note(snapshot, self._notices.current))

    def _act(self, verdict: Verdict, snapshot: Snapshot) -> None:
        ended_by_us = self.recovery is not None and self.recovery.has_ended(snapshot)
        if ended_by_us or not self._incidents.is_news(verdict):
            return
        verdict = recall.explained(verdict, snapshot)
        self._incidents.add(verdict)
        stored = self._reports.report(verdict, snapshot)
        self._readers.note_bundle(verdict, stored)
        if stored is not None and self.writer is not None:
            self.writer.write(stored)
        if self.recovery is not None:
            self.recovery.begin(verdict, snapshot)

    def _close_stall(self, snapshot: Snapshot) -> None:
        acting = self.recovery is not None and self.recovery.is_acting
        text = self._incidents.stall_is_over(snapshot, acting=acting)
        if text is None:
            return
        if text:
            say(text)
            if self.recovery is not None:
                self.recovery.job_moves()
        self._reports.publish(None)

    def _close_slow(self, snapshot: Snapshot) -> None:
        was_open = self._incidents.any_open
        for verdict in self._incidents.slow_that_recovered(snapshot):
            ranks = [culprit.rank for culprit in verdict.culprits]
            verb = "is" if len(ranks) == 1 else "are"
            say(f"{ranks_text(ranks)} {verb} as fast as the others again")
        if was_open and not self._incidents.any_open:
            self._reports.publish(None)

    def _tell_followers(self) -> None:
        """Let the page know who holds the others up; what it sees of it grows older by itself."""
        current = self._notices.current
        if self._hub is not None and (current or self._told):
            text = msgspec.json.encode(current).decode()
            self._hub.followers.tell(wire.News("notices", text))
        self._told = bool(current)

    # --- what people ask for

    def control(self, message: Any) -> dict[str, Any]:
        """Obey `unstuck ctl`, or say why not; the answer gives the settings that hold now."""
        now = self._clock.time()
        try:
            said = self._steering.obey(message, now)
        except RefusedError as error:
            return {"error": str(error)}
        if said:
            with contextlib.suppress(OSError):
                self._ledger.write("ctl", asked=message, summary=said)
            self._reports.announce(said)
            self._publish_pause(now)
        learned = learned_patience(self._last) if self._last else 0.0
        return {
            "said": said,
            "learned": round(learned, 1),
            "controls": asdict(self._steering.at(now)),
            "notices": msgspec.to_builtins(self._notices.current),
        }

    def _end_pause(self, now: float) -> None:
        if self._steering.pause_has_ended(now):
            self._reports.announce("the pause has ended: stalls are judged again")
            self._publish_pause(now)

    def _publish_pause(self, now: float) -> None:
        """Let the agents know until when they, too, leave the ranks alone."""
        if self._hub is not None:
            left = self._steering.at(now).paused_left
            self._hub.publish("paused", str(now + left if left else 0.0), holds=left > 0)

    # --- wiring

    def connect(self, hub: Hub) -> None:
        """Reach the nodes of the job through this hub, and answer what they ask."""
        self._hub = self._reports.hub = hub
        hub.ctl = self.control
        hub.inform = self._readers.answer
        hub.describe = lambda state: explain_rank(state).culprit.doing

    def close(self) -> None:
        """Leave in the run directory how the job stood at its end."""
        self._readers.write_last()

    def act_by(self, orders: Instructions) -> None:
        """Act on verdicts from now on, as a policy says."""
        announce, clock = self._reports.announce, self._clock
        self.recovery = Recovery(orders, self._run, self._host, announce=announce, clock=clock)
        self.recovery.reach = self._hub
        if self._hub is not None and orders.policy.has(Action.EXCLUDE):
            self._hub.lease = orders.policy.limits.lease


def main() -> None:
    """Run the hub of one job on a listening socket that `unstuck run` opened."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--listener", type=int, required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--command", required=True)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--recovery", type=Path)
    parser.add_argument("--watch-only", action="store_true")
    options = parser.parse_args()
    # Ctrl-C belongs to the job; this process ends when the job has ended.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    report_rarely("hub")
    command = shlex.split(options.command)
    pipeline = Pipeline(options.run, command, options.host, as_json=options.json)
    pipeline.writer = ReportWriter()
    judge = pipeline.bugs.guard(pipeline.judge)
    hub = Hub(os.environ.pop("UNSTUCK_TOKEN"), judge, options.host)
    pipeline.connect(hub)
    recall.prepare()
    if options.watch_only:
        hub.ctl = refuse_ctl
    elif orders := instructions.read(options.recovery):
        pipeline.act_by(orders)
    prepare_for_many()
    with socket.socket(fileno=options.listener) as listener:
        asyncio.run(hub.serve(listener))
    pipeline.close()
    pipeline.writer.finish(_REPORTS_WITHIN)


def refuse_ctl(_: Any) -> dict[str, Any]:
    """Obey nobody where others than the job may know the token."""
    return {
        "error": "this job takes no ctl: anybody on its machines could send it. Its nodes need a"
        " secret: give each the same --token-file or UNSTUCK_TOKEN"
    }


def prepare_for_many() -> None:
    """Allow a connection for each of many nodes, and keep so many objects without looking at them.

    A snapshot of 100,000 ranks is millions of objects without cycles: the collector would take
    half of the time of a pass to find nothing.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 50, 100)


if __name__ == "__main__":
    main()
