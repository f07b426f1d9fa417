"""A plan is carried out step by step: written down first, each within its limit, to an end."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clocks import FakeClock
from scenes import Scene, job
from unstuck.act.carry_out import Recovery
from unstuck.act.defaults import policy
from unstuck.act.instructions import Instructions
from unstuck.model.order import Act, Order, Target
from unstuck.model.snapshot import NodeState, Snapshot
from unstuck.model.verdict import Cause, Confidence, Culprit, Verdict


class Agents:
    """Keeps the orders, and what the ledger said when each came."""

    def __init__(self, ledger: Path) -> None:
        self.orders: list[Order] = []
        self.written: list[str] = []
        self._ledger = ledger

    def order(self, order: Order) -> None:
        lines = self._ledger.read_text().splitlines() if self._ledger.exists() else []
        self.written.append(json.loads(lines[-1])["act"] if lines else "")
        self.orders.append(order)

    def acts(self) -> list[Act]:
        return [order.act for order in self.orders]


class World:
    """A recovery with a clock of its own."""

    def __init__(self, run: Path, *on: str, recover: bool = True, **allows: Any) -> None:
        self.clock = FakeClock()
        self.said: list[str] = []
        allows = {"max_restarts": 3, **allows}
        job = Instructions("run", policy(recover=recover, on=on), **allows)
        self.recovery = Recovery(job, run, "host0", announce=self.said.append, clock=self.clock)
        self.agents = Agents(run / "ledger.jsonl")
        self.recovery.reach = self.agents
        self.ledger = run / "ledger.jsonl"

    def later(self, seconds: float, snapshot: Snapshot) -> None:
        self.clock.sleep(seconds)
        self.recovery.look(snapshot)

    def acts(self) -> list[str]:
        if not self.ledger.exists():
            return []
        return [json.loads(line)["act"] for line in self.ledger.read_text().splitlines()]


def verdict(cause: Cause, rank: int = 2, host: str = "host0", **fields: Any) -> Verdict:
    culprit = Culprit(rank, host, "is stopped")
    return Verdict(cause, Confidence.CERTAIN, (culprit,), (0, 1, 3), "", summary="s", **fields)


def scene(attempt: int = 0, step: int = 30) -> Scene:
    found = job(4)
    for rank in range(4):
        found.process(rank, pid=1000 + attempt * 10 + rank)
        found.change(rank, attempt=f"a/{attempt}", restarts=attempt, step=step, age=30.0)
    found.nodes["host0"] = NodeState("host0/1", "host0", nodes_wanted=1)
    return found


def taken(found: Scene, attempt: int = 0) -> Snapshot:
    return msgspec.structs.replace(found.snapshot(), attempt=attempt)


STOPPED = verdict(Cause.PROCESS_STOPPED)


def test_stopped_rank_has_all_ranks_ended_after_it_was_written_down(tmp_path: Path):
    world = World(tmp_path)
    world.recovery.begin(STOPPED, taken(scene()))
    world.later(0.3, taken(scene()))
    assert world.acts() == ["notify", "restart"]
    assert world.agents.acts() == [Act.END]
    assert world.agents.written == ["restart"]
    order = world.agents.orders[0]
    assert order.targets == tuple(Target(rank, 1000 + rank) for rank in range(4))
    assert order.culprits == (2,)


def test_order_is_repeated_for_those_that_live_until_the_new_attempt_is_there(tmp_path: Path):
    world = World(tmp_path, "process-stopped=restart")
    world.recovery.begin(STOPPED, taken(scene()))
    left = scene().end(0, -9, 0.1).end(1, -9, 0.1).end(3, -9, 0.1)
    world.later(1.5, taken(left))
    world.later(1.5, taken(left))
    assert [target.rank for target in world.agents.orders[-1].targets] == [2]
    count = len(world.agents.orders)
    world.later(5.0, taken(scene(1, step=0), 1))
    world.later(5.0, taken(scene(1, step=1), 1))
    assert len(world.agents.orders) == count
    assert world.said[-1].startswith("the job continues, ")
    assert world.acts() == ["restart"]


def test_new_processes_are_never_hit_by_an_old_order(tmp_path: Path):
    world = World(tmp_path, "process-stopped=restart")
    world.recovery.begin(STOPPED, taken(scene()))
    world.later(60.0, taken(scene(1), 1))
    pids = {target.pid for order in world.agents.orders for target in order.targets}
    assert pids == {1000, 1001, 1002, 1003}


def test_rank_that_cannot_be_ended_stops_the_job(tmp_path: Path):
    world = World(tmp_path)
    world.recovery.begin(STOPPED, taken(scene()))
    world.later(29.0, taken(scene()))
    assert world.acts()[-1] == "restart"
    world.later(2.0, taken(scene()))
    assert world.acts()[-1] == "stop"


def test_restart_that_does_not_come_back_stops_the_job(tmp_path: Path):
    world = World(tmp_path)
    world.recovery.begin(STOPPED, taken(scene()))
    gone = scene()
    for rank in range(4):
        gone.end(rank, -9, 0.1)
    world.later(1.0, taken(gone))
    world.later(590.0, taken(gone))
    assert world.acts()[-1] == "restart"
    world.later(20.0, taken(gone))
    assert world.acts()[-1] == "stop"
    assert world.agents.orders[-1].act is Act.STOP
    assert world.agents.orders[-1].code == 84


def test_mismatch_is_stopped_at_once_and_for_good(tmp_path: Path):
    world = World(tmp_path)
    world.recovery.begin(verdict(Cause.COLLECTIVE_MISMATCH), taken(scene()))
    assert [order.code for order in world.agents.orders] == [82]
    world.recovery.begin(verdict(Cause.PROCESS_CRASH), taken(scene()))
    for _ in range(5):
        world.later(2.0, taken(scene()))
    assert {order.code for order in world.agents.orders} == {82}
    assert world.acts() == ["notify", "stop"]


def test_what_a_healthy_rank_can_look_like_is_reported_and_left_alone(tmp_path: Path):
    world = World(tmp_path)
    world.recovery.begin(verdict(Cause.HOST_DEADLOCK), taken(scene()))
    for _ in range(100):
        world.later(60.0, taken(scene()))
    assert world.agents.orders == []
    assert world.acts() == ["notify"]
    assert world.said == [
        "host-deadlock is reported only: a healthy rank can look like this. To act on it, name it "
        "in your policy (--on host-deadlock=...)"
    ]


def test_what_passes_is_not_touched(tmp_path: Path):
    world = World(tmp_path, "busy-elsewhere=notify,wait:30m,restart")
    world.recovery.begin(verdict(Cause.BUSY_ELSEWHERE), taken(scene()))
    for _ in range(10):
        world.later(60.0, taken(scene()))
    world.recovery.job_moves()
    for _ in range(100):
        world.later(60.0, taken(scene()))
    assert world.agents.orders == []
    assert world.acts() == ["notify", "wait", "recovered"]


def test_what_does_not_pass_is_acted_on_after_its_time(tmp_path: Path):
    world = World(tmp_path, "busy-elsewhere=notify,wait:30m,restart")
    world.recovery.begin(verdict(Cause.BUSY_ELSEWHERE), taken(scene()))
    world.later(1799.0, taken(scene()))
    assert world.agents.orders == []
    world.later(2.0, taken(scene()))
    assert world.acts() == ["notify", "wait", "restart"]


def test_the_time_that_the_job_stood_counts_from_its_onset_also_after_a_wait(tmp_path: Path):
    world = World(tmp_path, "unknown=wait:60s, restart")
    world.recovery.begin(verdict(Cause.UNKNOWN, stalled_seconds=3.0), taken(scene()))
    world.later(61.0, taken(scene()))
    world.later(6.0, taken(scene(1, step=1), 1))
    # The clock here goes on between the steps, and this machine may be busy.
    assert re.fullmatch(r"the job continues, 7[0-4]\.\d s after it had stopped", world.said[-1])


def test_clearer_verdict_replaces_a_plan_that_only_waits(tmp_path: Path):
    world = World(tmp_path)
    world.recovery.begin(verdict(Cause.UNKNOWN), taken(scene()))
    world.recovery.begin(verdict(Cause.COLLECTIVE_MISMATCH), taken(scene()))
    assert world.agents.acts() == [Act.STOP]


def test_hooks_are_called_and_waited_for_before_the_ranks_are_ended(tmp_path: Path):
    world = World(tmp_path)
    hooked = scene().change(0, hook="ready", hook_seconds=20.0).change(2, hook="ready")
    world.recovery.begin(STOPPED, taken(hooked))
    order = world.agents.orders[0]
    assert (order.act, order.targets, order.seconds) == (Act.HOOK, (Target(0, 1000),), 20.0)
    world.later(0.5, taken(hooked.change(0, hook="running")))
    assert Act.END not in world.agents.acts()
    world.later(0.5, taken(hooked.change(0, hook="done")))
    assert world.agents.acts()[-1] is Act.END


def test_hook_that_hangs_costs_its_time_and_no_more(tmp_path: Path):
    world = World(tmp_path)
    hooked = scene().change(0, hook="running", hook_seconds=20.0)
    world.recovery.begin(STOPPED, taken(hooked))
    world.later(19.0, taken(hooked))
    assert Act.END not in world.agents.acts()
    world.later(2.0, taken(hooked))
    assert world.agents.acts()[-1] is Act.END


def test_storm_ends_with_its_own_code_also_after_the_hub_was_started_again(tmp_path: Path):
    world = World(tmp_path, max_restarts=10)
    for attempt in range(4):
        world.recovery.close()
        world = World(tmp_path, max_restarts=10)
        world.recovery.begin(verdict(Cause.PROCESS_CRASH), taken(scene(attempt), attempt))
    assert world.acts().count("restart") == 3
    assert world.agents.orders[-1].code == 85
    assert "process-crash again; restarted 3 times without progress" in world.said[0]


def test_act_that_a_hub_did_not_live_to_do_is_done_by_the_next(tmp_path: Path):
    first = World(tmp_path, "process-stopped=restart")
    first.recovery.reach = None
    first.recovery.begin(STOPPED, taken(scene()))
    first.recovery.close()
    second = World(tmp_path, "process-stopped=restart")
    assert not second.recovery.has_ended(taken(scene()))
    second.recovery.begin(STOPPED, taken(scene()))
    assert second.agents.acts() == [Act.END]


def test_deaths_that_an_earlier_hub_caused_are_no_news(tmp_path: Path):
    first = World(tmp_path, "process-stopped=restart")
    first.recovery.begin(STOPPED, taken(scene()))
    first.recovery.close()
    gone = scene()
    for rank in range(4):
        gone.end(rank, -9, 0.1)
    assert World(tmp_path).recovery.has_ended(taken(gone))


def test_ledger_of_an_earlier_run_does_not_count(tmp_path: Path):
    old = {"act": "stop", "run": "another", "attempt": "a/0", "cause": "unknown"}
    (tmp_path / "ledger.jsonl").write_text(f"{json.dumps(old)}\nnot a line\n")
    world = World(tmp_path)
    world.recovery.begin(STOPPED, taken(scene()))
    world.later(0.3, taken(scene()))
    assert world.agents.acts() == [Act.END]


def test_launcher_without_restarts_is_stopped_for_the_scheduler(tmp_path: Path):
    world = World(tmp_path, max_restarts=0)
    world.recovery.begin(verdict(Cause.PROCESS_CRASH), taken(scene()))
    stop, end = world.agents.orders
    assert (stop.act, stop.code, stop.seconds) == (Act.STOP, 80, 5.0)
    assert (end.act, len(end.targets)) == (Act.END, 4)


def test_nothing_is_done_that_cannot_be_written_down(tmp_path: Path):
    world = World(tmp_path)
    (tmp_path / "ledger.jsonl").mkdir()
    world.recovery.begin(STOPPED, taken(scene()))
    world.later(5.0, taken(scene()))
    assert world.agents.orders == []
    assert "nothing is done" in world.said[0]


def test_second_hub_of_the_same_run_directory_does_nothing(tmp_path: Path):
    first, second = World(tmp_path), World(tmp_path)
    mismatch = verdict(Cause.COLLECTIVE_MISMATCH)
    first.recovery.begin(mismatch, taken(scene()))
    second.recovery.begin(mismatch, taken(scene()))
    second.later(5.0, taken(scene()))
    assert first.agents.acts() == [Act.STOP]
    assert second.agents.orders == []
    assert "another hub of this run directory acts: nothing is done from here" in second.said


def test_job_that_somebody_ends_is_left_alone(tmp_path: Path):
    world = World(tmp_path, "process-stopped=wait:5s,restart")
    world.recovery.begin(STOPPED, taken(scene()))
    stopping = scene()
    stopping.nodes["host0"] = msgspec.structs.replace(stopping.nodes["host0"], stopping=True)
    world.later(10.0, taken(stopping))
    world.later(10.0, taken(stopping))
    assert world.agents.orders == []


def two_hosts(silent_for: float = 0.0) -> Scene:
    found = job(4, per_host=2)
    for rank in range(4):
        found.process(rank, pid=1000 + rank).change(rank, attempt="a", step=30, age=30.0)
    found.nodes["host0"] = NodeState("host0/1", "host0", nodes_wanted=1)
    found.nodes["host1"] = NodeState("host1/1", "host1", silent_for, nodes_wanted=1)
    return found


LOST = verdict(Cause.NODE_FAILURE, 2, "host1")


def test_lost_node_is_left_behind_after_its_lease(tmp_path: Path):
    world = World(tmp_path, "node-failure=exclude:1h")
    world.recovery.begin(LOST, taken(two_hosts(3.5)))
    world.later(10.0, taken(two_hosts(13.5)))
    assert world.agents.acts() == [Act.STOP, Act.STOP]
    assert {(order.code, order.hosts) for order in world.agents.orders} == {(86, ("host1",))}
    world.later(10.0, taken(two_hosts(23.5)))
    world.later(1.5, taken(two_hosts(25.0)))
    end = world.agents.orders[-1]
    assert (end.act, [target.rank for target in end.targets]) == (Act.END, [0, 1])
    excluded = json.loads((tmp_path / "excluded.json").read_text())
    assert [(one["host"], one["reason"]) for one in excluded] == [("host1", "s")]


def test_excluded_node_that_comes_back_is_sent_away_until_it_is_allowed(tmp_path: Path):
    world = World(tmp_path, "node-failure=exclude:1h")
    world.recovery.begin(LOST, taken(two_hosts(3.5)))
    world.recovery.close()
    again = World(tmp_path)
    again.later(2.0, taken(two_hosts()))
    assert [(order.act, order.code) for order in again.agents.orders] == [(Act.STOP, 86)]
    (tmp_path / "excluded.json").write_text("[]")
    again.later(2.0, taken(two_hosts()))
    assert len(again.agents.orders) == 1


@pytest.mark.parametrize(("heard", "acts"), [({0, 1}, True), ({2, 3}, False)])
def test_half_of_the_ranks_acts_only_with_rank_0(tmp_path: Path, heard: set[int], acts: bool):
    world = World(tmp_path, "node-failure=stop:node")
    found = two_hosts(9.0)
    if 0 not in heard:
        found.node("host0", silent_for=9.0).node("host1", silent_for=0.0)
    world.recovery.begin(LOST, taken(found))
    assert bool(world.agents.orders) is acts


def test_without_recover_nothing_is_written_or_ordered(tmp_path: Path):
    world = World(tmp_path, recover=False)
    for cause in Cause:
        world.recovery.begin(verdict(cause), taken(scene()))
        world.later(100.0, taken(scene()))
    assert world.agents.orders == []
    assert world.acts() == []
