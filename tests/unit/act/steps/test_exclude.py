"""A node is left behind only when it surely has no ranks, and stays away until it is allowed."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from clocks import FakeClock
from scenes import job
from unstuck.act.defaults import policy
from unstuck.act.steps import exclude
from unstuck.act.steps.exclude import Exclude, Excluded
from unstuck.act.steps.step import Incident
from unstuck.model.action import Action, Step
from unstuck.model.order import Act, Order
from unstuck.model.snapshot import NodeState, Snapshot
from unstuck.model.verdict import Cause, Confidence, Culprit, Verdict

LOST = Verdict(
    Cause.NODE_FAILURE, Confidence.LIKELY, (Culprit(2, "host1", ""),), (0, 1), "", summary="why"
)
LEASE = policy(recover=True).limits.lease


class Agents:
    def __init__(self) -> None:
        self.orders: list[Order] = []

    def order(self, order: Order) -> None:
        self.orders.append(order)


def two_hosts(silent_for: float, *, ended: bool = False) -> Snapshot:
    scene = job(4, per_host=2)
    scene.nodes["host1"] = NodeState("host1/1", "host1", silent_for, ended=ended)
    return scene.snapshot()


def begin(run: Path, silent_for: float, seconds: float = 3600.0) -> tuple[Exclude, Agents]:
    incident = Incident(LOST, two_hosts(silent_for), policy(recover=True))
    step = Step(Action.EXCLUDE, seconds=seconds)
    return Exclude(incident, step, run, FakeClock()), Agents()


@pytest.mark.parametrize(
    ("silent_for", "ended", "restarts"),
    [(5.0, False, False), (LEASE + exclude.MARGIN + 1, False, True), (0.5, True, True)],
    ids=["its lease may still run", "its lease has run out", "it has said that it ended"],
)
def test_others_are_restarted_only_when_the_node_has_no_ranks_left(
    tmp_path: Path, silent_for: float, ended: bool, restarts: bool
):
    step, agents = begin(tmp_path, 3.5)
    step.finished(two_hosts(silent_for, ended=ended))
    step.carry_out(agents, 1)
    assert (agents.orders[0].act, agents.orders[0].hosts) == (Act.STOP, ("host1",))
    ended_ranks = [target.rank for order in agents.orders[1:] for target in order.targets]
    assert ended_ranks == ([0, 1] if restarts else [])


def test_node_is_remembered_once_with_the_reason_and_the_time(tmp_path: Path):
    step, agents = begin(tmp_path, 3.5)
    step.carry_out(agents, 1)
    step.carry_out(agents, 1)
    (found,) = exclude.read(tmp_path)
    assert (found.host, found.reason, found.until - found.since) == ("host1", "why", 3600.0)
    assert step.facts() == {"hosts": ["host1"], "until": found.until}


def test_node_is_allowed_back_after_its_time_or_only_by_command(tmp_path: Path):
    timed, barred = Excluded("a", "r", 100.0, until=200.0), Excluded("b", "r", 100.0)
    exclude.write(tmp_path, (timed, barred))
    assert exclude.read(tmp_path, 150.0) == (timed, barred)
    assert exclude.read(tmp_path, 201.0) == (barred,)


def test_second_exclusion_replaces_the_first_and_keeps_the_other_nodes(tmp_path: Path):
    exclude.write(tmp_path, (Excluded("host1", "old", 1.0), Excluded("host9", "other", 1.0)))
    step, agents = begin(tmp_path, 3.5, seconds=0.0)
    step.carry_out(agents, 1)
    reasons = {one.host: one.reason for one in exclude.read(tmp_path)}
    assert reasons == {"host1": "why", "host9": "other"}


@pytest.mark.parametrize("content", [None, b"", b"[{", b'{"host": 1}'])
def test_missing_or_damaged_file_excludes_nobody(tmp_path: Path, content: bytes | None):
    if content is not None:
        (tmp_path / exclude.FILE).write_bytes(content)
    assert exclude.read(tmp_path) == ()


def test_new_attempt_has_more_time_than_the_end_of_the_old_one(tmp_path: Path):
    step, _ = begin(tmp_path, 3.5)
    before = step.limit
    gone = two_hosts(3.5)
    ranks = tuple(replace(s, process=replace(s.process, gone_for=0.1)) for s in gone.ranks)
    assert not step.finished(replace(gone, ranks=ranks))
    assert step.limit > before
