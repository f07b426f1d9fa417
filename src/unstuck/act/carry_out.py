"""Carries out a plan step by step: each within its limit, then the next and harder one.

Every act is on disk before it is done; one that cannot be written down is not done. A plan ends
when the job moves again while nothing was done yet, when a new attempt has started, or with a
stop, which always ends.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from unstuck.act import plan as planning
from unstuck.act.history import attempt_of, ground_of, read_past
from unstuck.act.instructions import Instructions
from unstuck.act.lease import Lease
from unstuck.act.ledger import Ledger
from unstuck.act.plan import ENDING, Did, Ground, Plan
from unstuck.act.steps.checkpoint import Checkpoint, Raise
from unstuck.act.steps.exclude import Exclude
from unstuck.act.steps.exclude import read as read_excluded
from unstuck.act.steps.notify import notify
from unstuck.act.steps.restart import Restart
from unstuck.act.steps.step import Actuator, Incident, Reach, living
from unstuck.act.steps.stop import Stop
from unstuck.act.steps.wait import Wait
from unstuck.clock import SYSTEM, Clock
from unstuck.console import say
from unstuck.model.action import TELLING, Action, Step
from unstuck.model.exits import Exit
from unstuck.model.liveness import HEARD, of_node
from unstuck.model.order import Act, Order
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Verdict

AGAIN_AFTER = 1.0
"""Seconds after which an order is repeated until it shows: an agent may have missed it."""
_NOW = {
    Action.WAIT: "waiting up to {seconds:g} s whether it passes",
    Action.CHECKPOINT: "letting the surviving ranks save their state",
    Action.RAISE: "raising StallError in the surviving ranks",
    Action.RESTART: "ending all ranks, so that they are restarted",
    Action.EXCLUDE: "continuing without the node",
    Action.STOP: "stopping the job with exit code {code}: {advice}",
}


class _Running:
    """A plan that is being carried out."""

    def __init__(self, incident: Incident, plan: Plan, now: float) -> None:
        self.incident = incident
        self.onset = now - incident.verdict.stalled_seconds
        self.attempt = attempt_of(incident.snapshot)
        self.steps = [step for step in plan.steps if step.action not in TELLING]
        self.index = -1
        self.actuator: Actuator | None = None
        self.began = 0.0
        self.repeated = 0.0
        self.touched = False


class Recovery:
    """Acts for one job, as its policy says; does nothing where the policy never acts."""

    def __init__(
        self,
        instructions: Instructions,
        run: Path,
        host: str,
        *,
        announce: Callable[[str], None] = say,
        clock: Clock = SYSTEM,
    ) -> None:
        """Prepare; `announce` says one line to the people at all nodes."""
        self._job = instructions
        self._policy = instructions.policy
        self._host = host
        self._run = run
        self._announce = announce
        self._clock = clock
        self._ledger = Ledger(run / "ledger.jsonl")
        self._lease = Lease(run)
        self._past: tuple[Did, ...] = read_past(run / "ledger.jsonl", instructions.run)
        self._inherited = len(self._past)
        self._running: _Running | None = None
        self._restarting: tuple[str, float] | None = None
        self._number = 0
        self._checked_excluded = 0.0
        self._said: set[str] = set()
        self.reach: Reach | None = None

    def begin(self, verdict: Verdict, snapshot: Snapshot) -> None:
        """Plan what to do about a verdict that is news, and take the first step."""
        if self.is_acting:
            return
        ground = self._ground(snapshot)
        plan = planning.decide(verdict, self._policy, self._effective(snapshot), ground)
        fresh = _Running(Incident(verdict, snapshot, self._policy), plan, self._clock.monotonic())
        if any(step.action is Action.NOTIFY for step in plan.steps):
            self._notify(verdict, fresh.steps)
        for note in plan.notes:
            self._announce(note)
        if fresh.steps:
            self._running = fresh
            self._advance(fresh, snapshot)

    def look(self, snapshot: Snapshot) -> None:
        """Continue the plan, if there is one; called whenever the job was looked at."""
        self._note_return(snapshot)
        self._send_away_excluded(snapshot)
        running = self._running
        if running is None:
            return
        if self._is_over(running, snapshot):
            self._running = None
            return
        now, actuator = self._clock.monotonic(), running.actuator
        if actuator is None or actuator.finished(snapshot) or now - running.began > actuator.limit:
            self._advance(running, snapshot)
        elif now - running.repeated > AGAIN_AFTER:
            self._order(running)

    def close(self) -> None:
        """Give up the right to act."""
        self._lease.release()

    @property
    def is_acting(self) -> bool:
        """Whether ranks are being freed or ended: what moves then is not the job."""
        return self._running is not None and self._running.touched

    def job_moves(self) -> None:
        """Drop a plan of which nothing was done yet: the job moves again."""
        if self._running is not None and not self.is_acting:
            self._write("recovered", self._running.incident.verdict)
            self._running = None

    def has_ended(self, snapshot: Snapshot) -> bool:
        """Tell whether this attempt was ended from here: what dies now is no news."""
        attempt = attempt_of(snapshot)
        done = self._effective(snapshot)
        return any(did.attempt == attempt and did.action in ENDING for did in done)

    def _effective(self, snapshot: Snapshot) -> tuple[Did, ...]:
        """Return what was done, without what an earlier hub wrote down but died before doing."""
        if not living(snapshot):
            return self._past
        attempt, inherited = attempt_of(snapshot), self._past[: self._inherited]
        kept = [did for did in inherited if did.attempt != attempt or did.action not in ENDING]
        return (*kept, *self._past[self._inherited :])

    # --- steps

    def _is_over(self, running: _Running, snapshot: Snapshot) -> bool:
        """Tell whether a new attempt has started, or somebody else ends the job."""
        action = running.steps[running.index].action if running.index >= 0 else None
        if action is Action.STOP:
            return False
        excluded = action is Action.EXCLUDE
        leaving = planning.lost_hosts(running.incident.verdict) if excluded else ()
        if any(node.stopping and node.host not in leaving for node in snapshot.nodes):
            return True
        return bool(snapshot.ranks) and attempt_of(snapshot) != running.attempt

    def _advance(self, running: _Running, snapshot: Snapshot) -> None:
        """Take the next step that can be taken; the last one is never left."""
        incident = running.incident._replace(snapshot=snapshot)
        while running.index + 1 < len(running.steps):
            step = running.steps[running.index + 1]
            if step.action is not Action.WAIT and (why := self._lease.why_not(snapshot)):
                self._say_once(f"{why}: nothing is done from here")
                return
            actuator = self._actuator(step, incident)
            if not actuator.pointless:
                self._take(step, actuator, running, snapshot)
                return
            running.index += 1

    def _take(self, step: Step, actuator: Actuator, running: _Running, snapshot: Snapshot) -> None:
        verdict, ground = running.incident.verdict, self._ground(snapshot)
        about: dict[str, Any] = {
            "run": self._job.run,
            "attempt": ground.attempt,
            "ranks": tuple(culprit.rank for culprit in verdict.culprits),
            "step": ground.step,
            "ran_for": ground.ran_for,
        }
        if not self._write(step.action, verdict, **about, **actuator.facts()):
            return
        running.index += 1
        running.actuator = actuator
        running.began = self._clock.monotonic()
        running.touched = running.touched or step.action is not Action.WAIT
        self._past = (*self._past, Did(step.action, cause=verdict.cause, **about))
        if step.action in (Action.RESTART, Action.EXCLUDE):
            self._restarting = (running.attempt, running.onset)
        code = planning.exit_of(step)
        text = _NOW[step.action].format(
            seconds=step.seconds, code=code.value, advice=planning.ADVICE[code]
        )
        self._announce(f"{text} ({verdict.cause})")
        self._number += 2
        self._order(running)

    def _actuator(self, step: Step, incident: Incident) -> Actuator:
        match step.action:
            case Action.WAIT:
                return Wait(step)
            case Action.CHECKPOINT:
                return Checkpoint(incident, step)
            case Action.RAISE:
                return Raise(incident, step)
            case Action.RESTART:
                return Restart(incident)
            case Action.EXCLUDE:
                return Exclude(incident, step, self._run, self._clock)
            case _:
                left = self._ground(incident.snapshot).restarts_left
                return Stop(incident, step, left, self._run, self._clock)

    def _order(self, running: _Running) -> None:
        running.repeated = self._clock.monotonic()
        if self.reach is not None and running.actuator is not None:
            running.actuator.carry_out(self.reach, self._number)

    def _ground(self, snapshot: Snapshot) -> Ground:
        return ground_of(snapshot, self._host, self._job.max_restarts, self._job.fewest)

    # --- excluded nodes and restarted jobs

    def _send_away_excluded(self, snapshot: Snapshot) -> None:
        """Make a node that must stay away leave again, with the reason, as soon as it is heard."""
        now = self._clock.monotonic()
        due = now - self._checked_excluded >= AGAIN_AFTER
        if self.reach is None or not self._policy.acts or not due:
            return
        self._checked_excluded = now
        heard = {node.host for node in snapshot.nodes if of_node(node) in HEARD} - {self._host}
        for one in read_excluded(self._run, self._clock.time()):
            if one.host in heard:
                text = f"{one.host} is excluded: {one.reason}"
                self._say_once(text)
                order = Order(0, Act.STOP, code=Exit.LEFT.value, summary=text, hosts=(one.host,))
                self.reach.order(order)

    def _note_return(self, snapshot: Snapshot) -> None:
        """Say so when the restarted job has done its first step."""
        ranks = snapshot.ranks
        if self._restarting is None or not ranks or attempt_of(snapshot) == self._restarting[0]:
            return
        stepped = min(state.step for state in ranks) > 0
        if stepped or all(any(g.completed > 1 for g in state.groups) for state in ranks):
            seconds = self._clock.monotonic() - self._restarting[1]
            self._restarting = None
            self._announce(f"the job continues, {seconds:.1f} s after it had stopped")

    # --- what is written and said

    def _notify(self, verdict: Verdict, steps: list[Step]) -> None:
        if self._write(Action.NOTIFY, verdict):
            text = planning.words(steps[0]) if steps else ""
            notify(
                verdict,
                self._policy.notify,
                text,
                self._announce,
                source=f"{self._host}/{self._run.name}",
                clock=self._clock,
            )

    def _write(self, act: str, verdict: Verdict, **facts: Any) -> bool:
        try:
            self._ledger.write(act, summary=verdict.summary, cause=verdict.cause, **facts)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            self._say_once(f"the ledger cannot be written ({reason}): nothing is done")
            return False
        return True

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._announce(text)
