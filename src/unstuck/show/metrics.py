"""Prometheus metrics of runs, in the text format.

Job and node have series, of single ranks only those that lag or are blamed: 100,000 ranks do not
make 100,000 series. Every state and cause has its row, most of them 0, so that an alert resolves
by a value and not by a series that has disappeared.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import Struct

from unstuck._version import __version__
from unstuck.explain.view.doing_now import State
from unstuck.model.liveness import HEARD, Life
from unstuck.model.verdict import Cause
from unstuck.pipelines.job_status import JobState, JobStatus, NodeStatus

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_HEARD = {life.value for life in HEARD}
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")

Labels = dict[str, str]
Row = tuple[Labels, float]


class Metric(Struct, frozen=True):
    """One metric: its name, its kind and what it means."""

    name: str
    kind: str
    """`gauge` or `counter`."""
    help: str
    labels: tuple[str, ...] = ("run",)


JOB = (
    Metric("unstuck_job_state", "gauge", "1 for the state the job is in.", ("run", "state")),
    Metric("unstuck_job_observed_timestamp_seconds", "gauge", "When the hub last saw the job."),
    Metric(
        "unstuck_job_last_progress_timestamp_seconds",
        "gauge",
        "When any rank last showed progress.",
    ),
    Metric("unstuck_job_ranks", "gauge", "Ranks in each state.", ("run", "state")),
    Metric("unstuck_job_ranks_expected", "gauge", "Ranks that belong to the job."),
    Metric("unstuck_job_nodes", "gauge", "Nodes in each state.", ("run", "state")),
    Metric("unstuck_job_steps_total", "counter", "Steps of the furthest rank in this attempt."),
    Metric("unstuck_job_restarts_total", "counter", "Restarts by the launcher."),
    Metric("unstuck_job_step_seconds", "gauge", "Typical time of a step."),
    Metric("unstuck_job_step_own_seconds", "gauge", "The part of it outside of collectives."),
    Metric("unstuck_job_step_waiting_seconds", "gauge", "The part of it inside collectives."),
    Metric("unstuck_job_patience_seconds", "gauge", "How long a wait lasts before it is a stall."),
    Metric("unstuck_job_pause_remaining_seconds", "gauge", "How long stalls are not judged yet."),
    Metric(
        "unstuck_job_verdict", "gauge", "1 for the cause of a verdict that holds.", ("run", "cause")
    ),
    Metric("unstuck_job_hold_ups", "gauge", "Late ranks that others wait for, not known stuck."),
    Metric("unstuck_job_incidents_total", "counter", "Incidents stored in the run directory."),
)
_OF_NODE = ("run", "node", "host")
NODE = (
    Metric("unstuck_node_up", "gauge", "1 while the agent of the node is heard.", _OF_NODE),
    Metric("unstuck_node_silent_seconds", "gauge", "Since the node was last heard.", _OF_NODE),
    Metric("unstuck_node_ranks", "gauge", "Ranks of the job on the node.", _OF_NODE),
    Metric(
        "unstuck_node_pressure_ratio",
        "gauge",
        "Share of time in which a task waited for the resource.",
        (*_OF_NODE, "resource"),
    ),
    Metric(
        "unstuck_node_throttled_ratio", "gauge", "Share of time held back by a limit.", _OF_NODE
    ),
    Metric("unstuck_node_steal_ratio", "gauge", "Share of time the hypervisor took.", _OF_NODE),
)
_OF_RANK = ("run", "rank", "host")
RANK = (
    Metric(
        "unstuck_laggard_step_own_seconds",
        "gauge",
        "Own time of a step, of ranks that need much more than the others.",
        _OF_RANK,
    ),
    Metric("unstuck_laggard_blamed", "gauge", "1 for a rank that a verdict blames.", _OF_RANK),
)
BUILD = Metric("unstuck_build_info", "gauge", "The version of unstuck.", ("version",))
ALL = (BUILD, *JOB, *NODE, *RANK)
"""Every metric, in the order in which they are printed; the names are a public surface."""


def render(statuses: Iterable[tuple[str, JobStatus]]) -> str:
    """Return the metrics of runs, each given by its name.

    Example:
        render([("20261118-train", status)])
    """
    rows: dict[str, list[Row]] = {metric.name: [] for metric in ALL}
    rows[BUILD.name].append(({"version": __version__}, 1.0))
    for run, status in statuses:
        for name, labels, value in _of(status):
            rows[name].append(({"run": run, **labels}, value))
    return "".join(line for metric in ALL for line in _lines(metric, rows[metric.name]))


def _of(status: JobStatus) -> Iterator[tuple[str, Labels, float]]:
    for state in JobState:
        yield "unstuck_job_state", {"state": state}, float(status.state is state)
    open_causes = {one.verdict.cause for one in status.open}
    if status.state is JobState.ENDED:
        open_causes = set[Cause]()
    for cause in Cause:
        yield "unstuck_job_verdict", {"cause": cause}, float(cause in open_causes)
    yield "unstuck_job_incidents_total", {}, status.incidents
    if status.observed_at and status.state is not JobState.ENDED:
        yield from _of_living(status)
        for node in status.nodes:
            yield from _of_node(node)


def _of_living(status: JobStatus) -> Iterator[tuple[str, Labels, float]]:
    observed = datetime.fromisoformat(status.observed_at).timestamp()
    yield "unstuck_job_observed_timestamp_seconds", {}, observed
    moved = observed - status.progress_seconds
    yield "unstuck_job_last_progress_timestamp_seconds", {}, moved
    for state in State:
        yield "unstuck_job_ranks", {"state": state}, status.ranks.get(state, 0)
    yield "unstuck_job_ranks_expected", {}, status.world_size
    for life in Life:
        count = sum(node.state == life for node in status.nodes)
        yield "unstuck_job_nodes", {"state": life}, count
    yield "unstuck_job_steps_total", {}, status.step
    yield "unstuck_job_restarts_total", {}, status.attempt
    if status.step_seconds:
        yield "unstuck_job_step_seconds", {}, status.step_seconds
        yield "unstuck_job_step_own_seconds", {}, status.own_seconds
        yield "unstuck_job_step_waiting_seconds", {}, status.waiting_seconds
    yield "unstuck_job_patience_seconds", {}, status.patience
    yield "unstuck_job_pause_remaining_seconds", {}, status.paused_seconds
    late = sum(len(notice.ranks) for notice in status.notices)
    yield "unstuck_job_hold_ups", {}, late
    for one in status.laggards:
        labels = {"rank": str(one.rank), "host": one.host}
        yield "unstuck_laggard_step_own_seconds", labels, one.own_seconds
        yield "unstuck_laggard_blamed", labels, float(one.blamed)


def _of_node(node: NodeStatus) -> Iterator[tuple[str, Labels, float]]:
    labels, pressure = {"node": node.node, "host": node.host}, node.pressure
    yield "unstuck_node_up", labels, float(node.state in _HEARD)
    yield "unstuck_node_silent_seconds", labels, node.silent_seconds
    yield "unstuck_node_ranks", labels, node.ranks
    for resource in ("cpu", "io", "memory"):
        share = getattr(pressure, resource)
        yield "unstuck_node_pressure_ratio", {**labels, "resource": resource}, share
    yield "unstuck_node_throttled_ratio", labels, pressure.throttled
    yield "unstuck_node_steal_ratio", labels, pressure.steal


def _lines(metric: Metric, rows: list[Row]) -> Iterator[str]:
    if not rows:
        return
    yield f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n"
    for labels, value in rows:
        pairs = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
        yield f"{metric.name}{{{pairs}}} {value:.15g}\n"


def _escaped(text: str) -> str:
    return _CONTROL.sub("", text).translate(_ESCAPES)
