"""Judge runs by what their scenarios expect. Pure: the same runs give the same score.

A run counts only if its fault is proven to have taken effect. A run that was skipped or failed
for reasons of its own is listed, but says nothing about unstuck.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from unstuck.lab.run import Run
from unstuck.lab.scenario import Kind, Scenario

NOTHING = "no verdict"
MAY_ARRIVE = ("held", "works")
"""Kinds of which a notice must name the rank."""
EARLY = -0.25
"""Seconds by which the proof of a fault may be seen later than the fault itself."""


class Judgement(Struct, frozen=True):
    """What is right and wrong about one run."""

    scenario: str
    number: int
    cause_right: bool
    culprit_right: bool
    innocents: int
    in_time: bool
    wrong: str = ""
    """One line on what is wrong; empty when nothing is."""


class Latency(Struct, frozen=True):
    """Seconds from the onset to the verdict over all runs of one kind and one goal."""

    kind: str
    """A kind of scenario, or `named`: to the first notice or verdict of a rank that holds others
    up.
    """
    runs: int
    p50: float
    p95: float
    max: float
    goal: float
    met: bool


class Row(Struct, frozen=True):
    """All runs of one scenario."""

    scenario: str
    kind: Kind
    expected: str
    runs: int
    causes_right: int
    culprits_right: int
    innocents: int
    min: float | None
    p50: float | None
    max: float | None
    goal: float
    met: bool


class Score(Struct, frozen=True):
    """The whole result."""

    runs: int
    right: int
    confusion: dict[str, dict[str, int]]
    """Expected cause -> reported cause -> number of runs."""
    culprits_right: int
    culprits_asked: int
    innocents: int
    latencies: tuple[Latency, ...]
    healthy_runs: int
    healthy_hours: float
    false_alarms: int
    false_alarms_per_hour: float | None
    notices: int
    """Told of healthy jobs."""
    rows: tuple[Row, ...]
    wrong: tuple[Judgement, ...]
    not_counted: tuple[Run, ...]
    """Skipped, or failed for reasons of their own."""

    @property
    def good(self) -> bool:
        """Whether every requested run counts and is right, and every goal is met."""
        in_trouble = any(run.trouble for run in self.not_counted)
        return (
            self.runs > 0
            and not self.wrong
            and not in_trouble
            and all(each.met for each in self.latencies)
        )


def judge(scenario: Scenario, run: Run) -> Judgement:
    """Compare a run with what its scenario expects."""
    cause = _cause_right(scenario, run)
    accused, guilty = _accused(scenario, run), _guilty(scenario)
    innocents = len(accused - guilty - {*scenario.beside})
    culprit = guilty <= accused and not innocents
    in_time = _in_time(scenario, run)
    healed = says_after(scenario, run.after, run.after_hosts)
    right = cause and culprit and in_time and healed
    wrong = "" if right else _complain(scenario, run, cause=cause, culprit=culprit, healed=healed)
    return Judgement(run.scenario, run.number, cause, culprit, innocents, in_time, wrong)


def _in_time(scenario: Scenario, run: Run) -> bool:
    if scenario.kind == "healthy":
        return True
    if scenario.kind in MAY_ARRIVE and (run.named is None or run.named > scenario.named):
        return False
    if scenario.kind == "works":
        return True
    return run.seconds is not None and EARLY <= run.seconds <= scenario.goal


def says_after(scenario: Scenario, cause: str | None, hosts: tuple[str, ...]) -> bool:
    """Tell whether the last verdict, after the fault was undone, is as expected."""
    if scenario.after and cause not in scenario.after:
        return False
    return not scenario.after_hosts or hosts == scenario.after_hosts


def score(scenarios: Iterable[Scenario], runs: Sequence[Run]) -> Score:
    """Score all runs.

    Example:
        >>> score(load(), [Run("healthy", 1, exit_code=0, watched=3600)]).healthy_hours
        1.0
    """
    known = {each.name: each for each in scenarios}
    counted = [run for run in runs if not (run.skipped or run.trouble)]
    judged = [judge(known[run.scenario], run) for run in counted]
    faulty = [run for run in counted if known[run.scenario].kind != "healthy"]
    healthy = [run for run in counted if known[run.scenario].kind == "healthy"]
    hours = sum(run.watched for run in healthy) / 3600
    alarms = sum(run.cause is not None for run in healthy)
    return Score(
        runs=len(counted),
        right=sum(not each.wrong for each in judged),
        confusion=_confusion(known, counted),
        culprits_right=sum(
            each.culprit_right for each in judged if known[each.scenario].kind != "healthy"
        ),
        culprits_asked=len(faulty),
        innocents=sum(each.innocents for each in judged),
        latencies=tuple(_latencies(known, faulty)),
        healthy_runs=len(healthy),
        healthy_hours=hours,
        false_alarms=alarms,
        false_alarms_per_hour=alarms / hours if hours else None,
        notices=sum(run.notices for run in healthy),
        rows=tuple(_rows(known, counted)),
        wrong=tuple(each for each in judged if each.wrong),
        not_counted=tuple(run for run in runs if run.skipped or run.trouble),
    )


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest of the values that `share` of all values do not exceed.

    Example:
        >>> percentile([1, 2, 3, 10], 0.95)
        10
    """
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _cause_right(scenario: Scenario, run: Run) -> bool:
    if scenario.kind == "works":
        return run.cause is None
    if not scenario.causes:
        return run.cause is None and run.exit_code == 0
    early = run.seconds is not None and run.seconds < EARLY
    return run.cause in scenario.causes and not early


def _guilty(scenario: Scenario) -> set[int | str]:
    return set(scenario.culprit_hosts or scenario.culprits)


def _accused(scenario: Scenario, run: Run) -> set[int | str]:
    if scenario.kind == "works" and run.cause is None:
        return set(run.noticed)
    if not scenario.culprit_hosts:
        return {each.rank for each in run.culprits}
    # When two hosts are cut off from each other neither is to blame: the verdict names both.
    return {each.host for each in run.culprits} or set(run.cut)


def _complain(scenario: Scenario, run: Run, *, cause: bool, culprit: bool, healed: bool) -> str:
    accused = sorted(str(each) for each in _accused(scenario, run))
    whom = f" of {', '.join(accused)}" if accused else ""
    if scenario.kind == "healthy":
        return f"{run.cause}{whom}" if run.cause else f"exit code {run.exit_code}"
    if scenario.kind in MAY_ARRIVE and (naming := _complain_of_naming(scenario, run, whom)):
        return naming
    if run.cause is None or (run.seconds is not None and run.seconds < EARLY):
        early = f"{run.cause}{whom}, {-(run.seconds or 0):.1f} s before the fault"
        return early if run.cause else f"no verdict within {scenario.limit:g} s"
    if not (cause and culprit):
        guilty = ", ".join(sorted(str(each) for each in _guilty(scenario))) or "nobody"
        return f"{run.cause}{whom or ' of nobody'}; right is {scenario.expected} of {guilty}"
    if not healed:
        said = f"{run.after or NOTHING} of {', '.join(run.after_hosts) or 'nobody'}"
        right = f"{' or '.join(scenario.after)} of {', '.join(scenario.after_hosts) or 'any'}"
        return f"after it healed {said}; right is {right}"
    return f"after {run.seconds or 0:.2f} s, later than {scenario.goal:g} s"


def _complain_of_naming(scenario: Scenario, run: Run, whom: str) -> str:
    """Say what is wrong about a notice, or of a verdict on a rank that works; empty: nothing."""
    if run.named is None:
        return "nobody was named"
    if run.named > scenario.named:
        return f"named after {run.named:.2f} s, later than {scenario.named:g} s"
    if scenario.kind == "held":
        return ""
    guilty = ", ".join(sorted(str(each) for each in _guilty(scenario)))
    return f"{run.cause or 'a notice'}{whom}; right is a notice of {guilty}, and no verdict"


def _confusion(known: Mapping[str, Scenario], runs: Iterable[Run]) -> dict[str, dict[str, int]]:
    table: dict[str, Counter[str]] = {}
    for run in runs:
        expected = known[run.scenario].expected
        table.setdefault(expected, Counter())[run.cause or NOTHING] += 1
    return {expected: dict(said.most_common()) for expected, said in sorted(table.items())}


def _times(runs: Iterable[Run]) -> list[float]:
    return [max(0.0, run.seconds) for run in runs if run.seconds is not None]


def _latencies(known: Mapping[str, Scenario], faulty: Sequence[Run]) -> Iterable[Latency]:
    groups: dict[tuple[str, float], list[float | None]] = defaultdict(list)
    for run in faulty:
        scenario = known[run.scenario]
        if scenario.kind in MAY_ARRIVE:
            groups["named", scenario.named].append(run.named)
        if scenario.kind != "works":
            groups[scenario.kind, scenario.goal].append(run.seconds)
    for (kind, goal), seconds in sorted(groups.items()):
        times = [max(0.0, one) for one in seconds if one is not None]
        if times:
            p50, p95 = percentile(times, 0.5), percentile(times, 0.95)
            met = p95 <= goal and len(times) == len(seconds)
            yield Latency(kind, len(times), p50, p95, max(times), goal, met)


def _rows(known: Mapping[str, Scenario], runs: Sequence[Run]) -> Iterable[Row]:
    for name in dict.fromkeys(run.scenario for run in runs):
        scenario, own = known[name], [run for run in runs if run.scenario == name]
        judged = [judge(scenario, run) for run in own]
        times = _times(own)
        yield Row(
            scenario=name,
            kind=scenario.kind,
            expected=scenario.expected,
            runs=len(own),
            causes_right=sum(each.cause_right for each in judged),
            culprits_right=sum(each.culprit_right for each in judged),
            innocents=sum(each.innocents for each in judged),
            min=min(times, default=None),
            p50=percentile(times, 0.5) if times else None,
            max=max(times, default=None),
            goal=scenario.goal,
            met=not any(each.wrong for each in judged),
        )
