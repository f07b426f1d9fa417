"""The composition root: joins collect, diagnose, explain and act; the only file that knows all.

    snapshot -> diagnose -> explain -> policy -> dump, report
                   └── evidence requests go back to the agents

Run as `python -m unstuck.pipeline`, this is the hub process of a job.
"""

import argparse
import asyncio
import contextlib
import os
import shlex
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from msgspec.structs import asdict, replace

from unstuck.act import instructions, policy
from unstuck.act.instructions import Instructions
from unstuck.act.ledger import Ledger
from unstuck.act.recovery import Recovery
from unstuck.act.steering import RefusedError, Steering
from unstuck.collect import bundle, settings
from unstuck.collect.hub import Hub
from unstuck.console import say
from unstuck.diagnose import slow
from unstuck.diagnose.host import explain_rank
from unstuck.diagnose.knobs import live
from unstuck.diagnose.patience import learned_patience
from unstuck.diagnose.standing import all_move
from unstuck.diagnose.verdict import diagnose
from unstuck.diagnose.words import ranks_text
from unstuck.errors import UnstuckError
from unstuck.explain.advice import advise
from unstuck.explain.report import machine, terminal
from unstuck.model.action import Action, Told
from unstuck.model.evidence import EvidenceRequest
from unstuck.model.knob import JobSettings
from unstuck.model.rank import RankState
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Verdict

_KEEP_SETTINGS_EVERY = 5.0
_STARTS_WITHIN = 2.0
"""Seconds in which the probe of a rank may still be on its way to its first report."""
_MOST_TOLD = 1024


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
        self._slow: dict[Told, Verdict] = {}
        self._unobserved: dict[tuple[int, str], float] = {}
        self._mentioned: set[tuple[int, str]] = set()
        self._settings: tuple[JobSettings | None, float] = (None, 0.0)
        self._steering = Steering(run / "controls.json")
        self._last: Snapshot | None = None
        self.recovery: Recovery | None = None
        self.hub: Hub | None = None

    def judge(self, snapshot: Snapshot) -> tuple[EvidenceRequest, ...]:
        """Look at the job once; return what else should be looked at."""
        if self._steering.ended(snapshot.taken_at):
            self._tell_all("the pause has ended: stalls are judged again")
            self._publish_pause(snapshot.taken_at)
        snapshot = replace(snapshot, controls=self._steering.at(snapshot.taken_at))
        self._last = snapshot
        self._mention_unobserved(snapshot)
        self._keep_settings(snapshot)
        diagnosis = diagnose(snapshot)
        verdict = diagnosis.verdict
        if self._open is not None and (verdict is None or verdict.slowdown):
            self._note_recovery(self._open, snapshot)
        if verdict is not None:
            self._act(snapshot, advise(verdict))
        elif _all_move(snapshot):
            # A rank that was started again by itself is there as before.
            self._history = policy.after_replacement(snapshot.attempt, self._history)
        if self._open is not None and verdict is not None and verdict.until:
            self._note_recovery(self._open, snapshot)
        for told in list(self._slow.values()):
            self._note_speed(told, snapshot)
        if self.recovery is not None:
            self.recovery.look(snapshot)
        return diagnosis.requests

    def control(self, message: Any) -> dict[str, Any]:
        """Obey `unstuck ctl`, or say why not; the answer says how things stand."""
        now = time.time()
        try:
            said = self._steering.obey(message, now)
        except RefusedError as error:
            return {"error": str(error)}
        if said:
            with contextlib.suppress(OSError):
                self._ledger.write("ctl", asked=message, summary=said)
            self._tell_all(said)
            self._publish_pause(now)
        learned = learned_patience(self._last) if self._last else 0.0
        controls = asdict(self._steering.at(now))
        return {"said": said, "learned": round(learned, 1), "controls": controls}

    def _publish_pause(self, now: float) -> None:
        """Let the agents know until when they, too, leave the ranks alone."""
        if self.hub is not None:
            left = self._steering.at(now).paused_left
            self.hub.publish("paused", str(now + left if left else 0.0), holds=left > 0)

    def _tell_all(self, text: str) -> None:
        """Say one line to the people at every node."""
        say(text)
        if self.hub is not None:
            self.hub.say(text, but=self._host)

    def _act(self, snapshot: Snapshot, verdict: Verdict) -> None:
        actions = policy.plan(verdict, self._history)
        if not actions or (self.recovery is not None and self.recovery.has_ended(snapshot)):
            return
        if verdict.slowdown:
            self._slow[Told.of(verdict)] = verdict
        elif self._open is not None or not verdict.until:
            self._open = verdict
        self._history = policy.remember(verdict, self._history)
        where: Path | None = None
        for action in actions:
            self._write_down(action, verdict)
            if action is Action.DUMP:
                where = self._dump(snapshot, verdict)
            elif action is Action.REPORT:
                self._report(verdict, where)
        if self.recovery is not None:
            self.recovery.begin(verdict, snapshot)

    def act_by(self, told: Instructions) -> None:
        """Act on verdicts from now on, as a policy says."""
        self.recovery = Recovery(told, self._run, self._host, tell=self._tell_all)
        self.recovery.reach = self.hub
        if self.hub is not None and told.policy.has(Action.EXCLUDE):
            self.hub.lease = told.policy.limits.lease

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
        self._publish(verdict)

    def _publish(self, verdict: Verdict | None) -> None:
        """Let the ranks that subscribed know; None: nothing is wrong any more."""
        if self.hub is None:
            return
        if verdict is not None and len(verdict.victims) > _MOST_TOLD:
            # It goes to every node of the job: of 100,000 ranks, not a list of all that wait.
            verdict = replace(verdict, victims=verdict.victims[:_MOST_TOLD])
        self.hub.publish("verdicts", machine.line(verdict), holds=verdict is not None)

    def _note_recovery(self, verdict: Verdict, snapshot: Snapshot) -> None:
        """The stall is over when every rank that was part of it moves again."""
        lost = verdict.cause in policy.FATAL - policy.MAY_HEAL
        if lost or verdict.attempt != snapshot.attempt:
            self._open = None
            self._publish(None)
            return
        if self.recovery is not None and self.recovery.acts:
            return
        part = {*verdict.victims, *(culprit.rank for culprit in verdict.culprits)}
        states = [state for state in snapshot.ranks if state.rank in part]
        if all_move(states) and not _leaves(snapshot, states):
            self._open = None
            self._history = policy.after_recovery(verdict, self._history)
            say("the job moves again")
            if self.recovery is not None:
                self.recovery.moves()
            self._publish(None)

    def _note_speed(self, verdict: Verdict, snapshot: Snapshot) -> None:
        """A slow job moves all the time: it is well when the culprits keep up again."""
        over = slow.is_over(verdict, snapshot)
        if not over and verdict.attempt == snapshot.attempt:
            return
        del self._slow[Told.of(verdict)]
        self._history = tuple(told for told in self._history if told != Told.of(verdict))
        if over:
            ranks = [culprit.rank for culprit in verdict.culprits]
            verb = "is" if len(ranks) == 1 else "are"
            say(f"{ranks_text(ranks)} {verb} as fast as the others again")
        if self._open is None and not self._slow:
            self._publish(None)

    def _mention_unobserved(self, snapshot: Snapshot) -> None:
        for state in snapshot.ranks:
            key = (state.process.pid, state.unobserved)
            if not state.unobserved or key in self._mentioned:
                continue
            since = self._unobserved.setdefault(key, snapshot.taken_at)
            if snapshot.taken_at - since >= _STARTS_WITHIN:
                self._mentioned.add(key)
                say(f"rank {state.rank} is unobserved: {state.unobserved}")

    def _keep_settings(self, snapshot: Snapshot) -> None:
        """Keep the timeouts that the ranks have in the run directory, whenever they change."""
        known, due = self._settings
        told = any(group.timeout for state in snapshot.ranks for group in state.groups)
        if snapshot.taken_at < due or not told:
            return
        found = live.read(snapshot)
        if found != known:
            settings.write(self._run, found)
        # As seldom as looking at all ranks is dear.
        pause = max(_KEEP_SETTINGS_EVERY, len(snapshot.ranks) / 500)
        self._settings = (found, snapshot.taken_at + pause)


def _leaves(snapshot: Snapshot, states: list[RankState]) -> bool:
    """Tell whether ranks come further only to their end: somebody ended the job, or it fails."""
    ending = any(node.stopping for node in snapshot.nodes)
    return ending or any(state.phase == "exit" for state in states)


def _all_move(snapshot: Snapshot) -> bool:
    if not 0 < snapshot.world_size <= len(snapshot.ranks):
        return False
    return all_move(snapshot.ranks)


def main() -> None:
    """Run the hub of one job on a listening socket that `unstuck run` opened."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--listener", type=int, required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--command", required=True)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--recovery", type=Path)
    options = parser.parse_args()
    # Ctrl-C belongs to the job; this process ends when the job has ended.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    command = shlex.split(options.command)
    pipeline = Pipeline(options.run, command, options.host, as_json=options.json)
    pipeline.hub = Hub(os.environ.pop("UNSTUCK_TOKEN"), pipeline.judge, options.host)
    pipeline.hub.ctl = pipeline.control
    pipeline.hub.describe = lambda state: explain_rank(state).culprit.doing
    if told := instructions.read(options.recovery):
        pipeline.act_by(told)
    with socket.socket(fileno=options.listener) as listener:
        asyncio.run(pipeline.hub.serve(listener))


if __name__ == "__main__":
    main()
