"""What to do about a verdict: a pure function of it, of the policy and of what was done before.

The actions of a plan are taken one after the other, each within its limit; the last always ends.
"""

from msgspec import Struct, structs

from unstuck.act.policy import DEFAULT, Limits, Policy
from unstuck.diagnose.text import ranks_text
from unstuck.model.action import TELLING, Action, Step
from unstuck.model.exits import ADVICE, STOP_WORDS, Exit
from unstuck.model.verdict import Cause, Confidence, Verdict

ENDING = frozenset({Action.RESTART, Action.EXCLUDE, Action.STOP})
"""After one of these the attempt is over: nothing is done about it any more."""
STORM = "storm"
NEVER_PASSES = frozenset({Cause.COLLECTIVE_MISMATCH, Cause.ORDER_INVERSION})
"""Only who is wrong may be in doubt here: what the ranks do can never complete."""
LOST = frozenset(
    {Cause.PROCESS_CRASH, Cause.OUT_OF_MEMORY, Cause.NODE_FAILURE, Cause.NETWORK_PARTITION}
)
"""A process has ended or a host is silent, which no healthy rank looks like: only *why* may be in
doubt."""
LOOKS_HEALTHY = frozenset(
    {Cause.BUSY_ELSEWHERE, Cause.HOST_DEADLOCK, Cause.NEVER_JOINED, Cause.STRAGGLER}
)
"""A rank that uploads, evaluates or reads from a cold cache looks the same, however sure we are."""


class Did(Struct, frozen=True, rename={"action": "act"}):
    """An action that was begun, as the ledger records it."""

    action: Action
    attempt: str
    cause: Cause
    ranks: tuple[int, ...] = ()
    step: int = 0
    """How many steps the attempt had done by then."""
    ran_for: float = 0.0
    """How long it had run."""
    run: str = ""
    """Identifies the run; the ledger may have lines of an earlier one."""


class Ground(Struct, frozen=True):
    """What the job allows, and how far this attempt has got."""

    attempt: str = ""
    restarts_left: int | None = None
    """How often the launcher will still restart the ranks; None: it never does."""
    hosts: tuple[str, ...] = ()
    """All hosts of the job; the hub's own first."""
    fewest: int = 1
    """With fewer nodes the launcher does not continue."""
    step: int = 0
    ran_for: float = 0.0


class Plan(Struct, frozen=True):
    """The actions in order, and what was left out for which reason."""

    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()


def decide(verdict: Verdict, policy: Policy, past: tuple[Did, ...], ground: Ground) -> Plan:
    """Return what to do about a verdict, in order.

    Example:
        decide(verdict, policy, (), Ground(restarts_left=3)).steps
    """
    rule = policy.rules[verdict.cause]
    harmless = tuple(step for step in rule if step.action in TELLING)
    asked = policy.origins.get(verdict.cause) != DEFAULT
    if verdict.slowdown or verdict.until:
        touches = len(harmless) < len(rule)
        return Plan(harmless, ("the job moves: it is not touched",) if touches else ())
    if any(did.action is Action.STOP for did in past):
        return Plan(harmless, ("the job is being stopped",))
    if any(did.attempt == ground.attempt and did.action in ENDING for did in past):
        return Plan(harmless, ("this attempt has been ended already",))
    if not asked and not is_proven(verdict):
        return Plan(harmless, (_unproven(verdict),))
    if len(harmless) == len(rule):
        return Plan(harmless)
    return _Maker(verdict, policy.limits, past, ground).make(rule)


def is_proven(verdict: Verdict) -> bool:
    """Tell whether a healthy job cannot look like this.

    Without that, only a policy in which the user named the cause may touch the job.
    """
    if verdict.cause in LOST:
        return True
    return verdict.confidence is Confidence.CERTAIN and verdict.cause not in LOOKS_HEALTHY


def _unproven(verdict: Verdict) -> str:
    return (
        f"{verdict.cause} is reported only: a healthy rank can look like this. To act on it, "
        f"name it in your policy (--on {verdict.cause}=...)"
    )


class _Maker:
    """Fits a rule to what the job allows and to what was done before."""

    def __init__(
        self, verdict: Verdict, limits: Limits, past: tuple[Did, ...], ground: Ground
    ) -> None:
        self._verdict = verdict
        self._limits = limits
        self._past = past
        self._ground = ground
        self._notes: list[str] = []
        self._stop = "person"

    def make(self, rule: tuple[Step, ...]) -> Plan:
        """Return the plan; its last step always ends."""
        steps: list[Step] = []
        for step in rule:
            fitted = self._fit(step)
            steps += [fitted] if fitted is not None else []
            if fitted is not None and fitted.action is Action.STOP:
                break
        else:
            steps.append(Step(Action.STOP))
        steps[-1] = structs.replace(steps[-1], stop=steps[-1].stop or self._stop)
        return Plan(self._with_doubt(steps), tuple(self._notes))

    def _fit(self, step: Step) -> Step | None:
        """Return the step as it can be done here; None when it cannot."""
        if step.action not in (Action.EXCLUDE, Action.RESTART):
            return step
        excludes = step.action is Action.EXCLUDE
        if excludes and (why := _cannot_exclude(self._verdict, self._ground)):
            self._notes.append(why)
            return Step(Action.STOP, stop="node")
        if why := _too_often(step, self._verdict, self._limits, self._past, self._ground):
            self._notes.append(why)
            self._stop = STORM
            return None
        if not self._ground.restarts_left:
            self._notes.append(_no_restarts(self._ground))
            return Step(Action.STOP, stop="node" if excludes else "retry")
        return step

    def _with_doubt(self, steps: list[Step]) -> tuple[Step, ...]:
        """A verdict that is only possible must hold for a while before it is acted on."""
        if self._verdict.confidence is not Confidence.POSSIBLE:
            return tuple(steps)
        first = next(i for i, step in enumerate(steps) if step.action not in TELLING)
        if self._verdict.cause in NEVER_PASSES and steps[first].action is Action.STOP:
            return tuple(steps)
        unsure = self._limits.unsure
        if steps[first].action is Action.WAIT and steps[first].seconds >= unsure:
            return tuple(steps)
        self._notes.append("the verdict is only possible: it must hold for a while first")
        return (*steps[:first], Step(Action.WAIT, seconds=unsure), *steps[first:])


def _no_restarts(ground: Ground) -> str:
    if ground.restarts_left is None:
        return "the launcher does not restart ranks: that is left to the scheduler"
    return "torchrun has no restarts left (--max-restarts): that is left to the scheduler"


def _cannot_exclude(verdict: Verdict, ground: Ground) -> str:
    hosts = lost_hosts(verdict)
    left = [host for host in ground.hosts if host not in hosts]
    if not hosts:
        return "no node is to blame alone, so none can be excluded"
    if ground.hosts and ground.hosts[0] in hosts:
        return f"{ground.hosts[0]} runs the hub and cannot be excluded"
    if len(left) < max(1, ground.fewest):
        return f"{len(left)} of {len(ground.hosts)} nodes are too few (--nnodes {ground.fewest})"
    return ""


def lost_hosts(verdict: Verdict) -> tuple[str, ...]:
    """Return the hosts that are to blame, each once."""
    return tuple(dict.fromkeys(culprit.host for culprit in verdict.culprits if culprit.host))


def _too_often(
    step: Step, verdict: Verdict, limits: Limits, past: tuple[Did, ...], ground: Ground
) -> str:
    """Say why one more restart would be a storm; empty if it would not."""
    row = in_a_row(past, ground, limits)
    if len(row) >= limits.restarts:
        return f"{len(row)} restarts in a row brought no progress"
    ranks = {culprit.rank for culprit in verdict.culprits}
    same = [did for did in row if did.cause is verdict.cause and _overlap(ranks, did)]
    if step.times and len(same) >= step.times:
        who = ranks_text(sorted(ranks)) + ": " if ranks else ""
        times = "once" if len(same) == 1 else f"{len(same)} times"
        return f"{who}{verdict.cause} again; restarted {times} without progress"
    return ""


def _overlap(ranks: set[int], did: Did) -> bool:
    return bool(ranks & {*did.ranks}) or not (ranks or did.ranks)


def in_a_row(past: tuple[Did, ...], ground: Ground, limits: Limits) -> tuple[Did, ...]:
    """Return the last restarts that brought no progress, newest first.

    An attempt made progress when it ran for long, or got further than the one before it.
    """
    restarts = [did for did in past if did.action in (Action.RESTART, Action.EXCLUDE)]
    row: list[Did] = []
    step, ran_for = ground.step, ground.ran_for
    for did in reversed(restarts):
        if ran_for >= limits.settled or step > did.step:
            break
        row.append(did)
        step, ran_for = did.step, did.ran_for
    return tuple(row)


def exit_of(step: Step) -> Exit:
    """Return the exit code of a stop."""
    return Exit.STORM if step.stop == STORM else STOP_WORDS.get(step.stop, Exit.PERSON)


_WORDS = {
    Action.DUMP: "store the incident in the run directory",
    Action.REPORT: "print the verdict",
    Action.NOTIFY: "notify: the web hook and the command, where there are any",
    Action.WAIT: "wait up to {seconds}; if the job moves again, nothing more is done",
    Action.CHECKPOINT: "call the @unstuck.on_stall hooks of the surviving ranks, up to {seconds}",
    Action.RAISE: "raise StallError in the surviving ranks; they have {seconds} to act on it",
    Action.RESTART: "end all ranks so that torchrun restarts them at once{often}",
    Action.EXCLUDE: "end all ranks and continue without the node{back}",
    Action.STOP: "stop the job with exit code {code}: {advice}",
}


def words(step: Step) -> str:
    """Say in words what a step does."""
    code = exit_of(step)
    seconds = f"{step.seconds:g} s"
    times = "once" if step.times == 1 else f"{step.times} times"
    return _WORDS[step.action].format(
        seconds=seconds,
        often=f", at most {times} without progress in between" if step.times else "",
        back=f"; it is allowed back after {seconds}" if step.seconds else "",
        code=code.value,
        advice=ADVICE[code],
    )
