"""Carries a plan out, step by step: each within its limit, then the next and harder one.

Every act is on disk before it is done; one that cannot be written down is not done. A plan ends
when the job moves again while nothing was done yet, when a new attempt is there, or with a stop,
which always ends.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unstuck.act import plan as planning
from unstuck.act.actuator import Actuator, Incident, Reach, living
from unstuck.act.exclude import Exclude
from unstuck.act.exclude import read as read_excluded
from unstuck.act.history import attempt_of, ground_of, read_past
from unstuck.act.instructions import Instructions
from unstuck.act.lease import Lease
from unstuck.act.ledger import Ledger
from unstuck.act.notify import notify
from unstuck.act.plan import ENDING, Did, Ground, Plan
from unstuck.act.restart import Restart
from unstuck.act.stop import Stop
from unstuck.act.survivors import Checkpoint, Raise
from unstuck.act.waiting import Waiting
from unstuck.console import say
from unstuck.model.action import TELLING, Action, Step
from unstuck.model.exits import Exit
from unstuck.model.order import Act, Order
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Verdict

AGAIN_AFTER = 1.0
"""An order is repeated until it shows: an agent may have been away for a moment."""


Tell = Callable[[str], None]
"""Says one line to the people at all nodes."""


class _Open:
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

    @property
    def step(self) -> Step:
        return self.steps[self.index]


class Recovery:
    """Acts for one job, as its policy says; does nothing where the policy never acts."""

    def __init__(
        self,
        instructions: Instructions,
        run: Path,
        host: str,
        *,
        tell: Tell = say,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy = instructions.policy
        self._job = instructions
        self._host = host
        self._run = run
        self._tell = tell
        self._clock = clock
        self._ledger = Ledger(run / "ledger.jsonl")
        self._lease = Lease(run)
        self._past: tuple[Did, ...] = read_past(run / "ledger.jsonl", instructions.run)
        self._inherited = len(self._past)
        self._open: _Open | None = None
        self._onset: tuple[str, float] | None = None
        self._number = 0
        self._looked = 0.0
        self._said: set[str] = set()
        self.reach: Reach | None = None

    def begin(self, verdict: Verdict, snapshot: Snapshot) -> None:
        """Plan what to do about a verdict that is news, and take the first step."""
        if self.acts:
            return
        ground = self._ground(snapshot)
        plan = planning.decide(verdict, self._policy, self._effective(snapshot), ground)
        fresh = _Open(Incident(verdict, snapshot, self._policy), plan, self._clock())
        if any(step.action is Action.NOTIFY for step in plan.steps):
            self._notify(verdict, fresh.steps)
        if not fresh.steps:
            return
        for note in plan.notes:
            self._tell(note)
        self._open = fresh
        self._advance(snapshot)

    def has_ended(self, snapshot: Snapshot) -> bool:
        """Tell whether this attempt was ended from here: what dies now is no news."""
        attempt = attempt_of(snapshot)
        done = self._effective(snapshot)
        return any(did.attempt == attempt and did.action in ENDING for did in done)

    def _effective(self, snapshot: Snapshot) -> tuple[Did, ...]:
        """Return what was done, without what an earlier hub wrote down but did not live to do."""
        if not living(snapshot):
            return self._past
        attempt, inherited = attempt_of(snapshot), self._past[: self._inherited]
        kept = [did for did in inherited if did.attempt != attempt or did.action not in ENDING]
        return (*kept, *self._past[self._inherited :])

    def look(self, snapshot: Snapshot) -> None:
        """Go on with the plan, if there is one; called whenever the job was looked at."""
        self._note_return(snapshot)
        self._send_away(snapshot)
        running = self._open
        if running is None:
            return
        if self._is_over(running, snapshot):
            self._open = None
            return
        now = self._clock()
        done = running.actuator is not None and running.actuator.finished(snapshot)
        late = running.actuator is None or now - running.began > running.actuator.limit
        if done or late:
            self._advance(snapshot)
        elif now - running.repeated > AGAIN_AFTER:
            self._repeat(running, now)

    def close(self) -> None:
        """Give the right to act back."""
        self._lease.release()

    @property
    def acts(self) -> bool:
        """Whether ranks are being freed, told or ended: what moves then is not the job."""
        return self._open is not None and self._open.touched

    def moves(self) -> None:
        """Drop a plan of which nothing was done yet: the job moves again."""
        if self._open is not None and not self.acts:
            self._write("recovered", self._open.incident.verdict, {})
            self._open = None

    def _is_over(self, running: _Open, snapshot: Snapshot) -> bool:
        """A new attempt is there, or somebody else ends the job."""
        action = running.step.action if running.index >= 0 else None
        if action is Action.STOP:
            return False
        excludes = action is Action.EXCLUDE
        sent_away = planning.lost_hosts(running.incident.verdict) if excludes else ()
        if any(node.stopping and node.host not in sent_away for node in snapshot.nodes):
            return True
        return bool(snapshot.ranks) and attempt_of(snapshot) != running.attempt

    def _send_away(self, snapshot: Snapshot) -> None:
        """A node that must stay away leaves again, with the reason, as soon as it shows itself."""
        now = self._clock()
        if self.reach is None or not self._policy.acts or now - self._looked < AGAIN_AFTER:
            return
        self._looked = now
        for one in read_excluded(self._run):
            here = [node for node in snapshot.nodes if node.host == one.host and not node.ended]
            heard = any(node.silent_for < AGAIN_AFTER * 3 for node in here)
            if heard and one.host != self._host:
                text = f"{one.host} is excluded: {one.reason}"
                self._say_once(text)
                order = Order(0, Act.STOP, code=Exit.LEFT.value, summary=text, hosts=(one.host,))
                self.reach.order(order)

    # --- steps

    def _advance(self, snapshot: Snapshot) -> None:
        """Take the next step that can be taken; the last one is never left."""
        running = self._open
        if running is None or running.index + 1 >= len(running.steps):
            return
        step = running.steps[running.index + 1]
        if step.action is not Action.WAIT and (why := self._lease.why_not(snapshot)):
            self._say_once(f"{why}: nothing is done from here")
            return
        actuator = self._actuator(step, running.incident._replace(snapshot=snapshot))
        if actuator.pointless:
            running.index += 1
            self._advance(snapshot)
            return
        if not self._write_step(step, running, actuator):
            return
        running.index += 1
        running.actuator = actuator
        running.began = self._clock()
        running.touched = running.touched or step.action is not Action.WAIT
        self._tell(f"{_now(step)} ({running.incident.verdict.cause})")
        self._remember(step, running, snapshot)
        self._number += 2
        self._repeat(running, running.began)

    def _actuator(self, step: Step, incident: Incident) -> Actuator:
        match step.action:
            case Action.WAIT:
                return Waiting(step)
            case Action.CHECKPOINT:
                return Checkpoint(incident, step)
            case Action.RAISE:
                return Raise(incident, step)
            case Action.RESTART:
                return Restart(incident)
            case Action.EXCLUDE:
                return Exclude(incident, step, self._run)
            case _:
                left = self._ground(incident.snapshot).restarts_left
                return Stop(incident, step, left, self._run)

    def _repeat(self, running: _Open, now: float) -> None:
        running.repeated = now
        if self.reach is not None and running.actuator is not None:
            running.actuator.carry_out(self.reach, self._number)

    def _remember(self, step: Step, running: _Open, snapshot: Snapshot) -> None:
        self._past = (*self._past, self._did(step, running.incident, snapshot))
        if step.action in (Action.RESTART, Action.EXCLUDE):
            self._onset = (running.attempt, running.onset)

    def _did(self, step: Step, incident: Incident, snapshot: Snapshot) -> Did:
        ground = self._ground(snapshot)
        ranks = tuple(culprit.rank for culprit in incident.verdict.culprits)
        cause = incident.verdict.cause
        return Did(step.action, ground.attempt, cause, ranks, ground.step, ground.ran_for)

    def _ground(self, snapshot: Snapshot) -> Ground:
        return ground_of(snapshot, self._host, self._job.max_restarts, self._job.fewest)

    # --- what is told

    def _notify(self, verdict: Verdict, steps: list[Step]) -> None:
        if self._write(Action.NOTIFY, verdict, {}):
            text = planning.words(steps[0]) if steps else ""
            notify(verdict, self._policy.notify, text, self._tell)

    def _write_step(self, step: Step, running: _Open, actuator: Actuator) -> bool:
        did = self._did(step, running.incident, running.incident.snapshot)
        facts = {
            "run": self._job.run,
            "attempt": did.attempt,
            "ranks": did.ranks,
            "step": did.step,
            "ran_for": did.ran_for,
            **actuator.facts(),
        }
        return self._write(step.action, running.incident.verdict, facts)

    def _write(self, act: str, verdict: Verdict, facts: dict[str, Any]) -> bool:
        try:
            self._ledger.write(act, summary=verdict.summary, cause=verdict.cause, **facts)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            self._say_once(f"the ledger cannot be written ({reason}): nothing is done")
            return False
        return True

    def _note_return(self, snapshot: Snapshot) -> None:
        """Say it when the restarted job has done its first step."""
        if self._onset is None or not snapshot.ranks or attempt_of(snapshot) == self._onset[0]:
            return
        step = min(state.step for state in snapshot.ranks)
        moved = step or all(_past_first_collective(state.groups) for state in snapshot.ranks)
        if moved:
            seconds = self._clock() - self._onset[1]
            self._onset = None
            self._tell(f"the job goes on, {seconds:.1f} s after it had stopped")

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._tell(text)


def _past_first_collective(groups: tuple[Any, ...]) -> bool:
    return any(group.completed > 1 for group in groups)


def _now(step: Step) -> str:
    """Say what is being done now."""
    match step.action:
        case Action.WAIT:
            return f"waiting up to {step.seconds:g} s whether it passes"
        case Action.CHECKPOINT:
            return "the surviving ranks may save what they have"
        case Action.RAISE:
            return "raising StallError in the surviving ranks"
        case Action.RESTART:
            return "ending all ranks, so that they are started again"
        case Action.EXCLUDE:
            return "going on without the node"
        case _:
            code = planning.exit_of(step)
            return f"stopping the job with exit code {code.value}: {planning.ADVICE[code]}"
