"""The process groups of a real rank: members in a file, counters on the page."""

import json
from pathlib import Path

from children import RANK, child, rank_env, until
from pairs import Pair
from unstuck.observe.probe.page import PageReader


def test_members_and_counters(pair: Pair):
    pair.both("both = dist.new_group([0, 1], group_desc='pair of two')")
    pair.both("[dist.all_reduce(torch.ones(4), group=both) for _ in range(3)] and None")
    name = pair.ranks[0].do("both.group_name")
    until(lambda: pair.page(0).report["groups"].get(name) == 3)
    members = json.loads(pair.file(0, "groups").read_text())

    assert members["0"]["ranks"] == members[name]["ranks"] == [0, 1]
    assert members[name]["description"] == "pair of two"
    assert members[name]["backend"] == "gloo"


def test_group_of_one_rank_is_known_to_its_member_only(pair: Pair):
    pair.both("alone = dist.new_group([1])")
    pair.ranks[1].do("dist.barrier(alone)")
    name = pair.ranks[1].do("alone.group_name")
    until(lambda: pair.page(1).report["groups"].get(name) == 1)
    assert name not in pair.page(0).report["groups"]


def test_how_far_a_rank_got_stays_true_after_the_end_of_a_group(pair: Pair):
    pair.both("passing = dist.new_group([0, 1])")
    name = pair.ranks[0].do("passing.group_name")
    pair.both("[dist.barrier(passing) for _ in range(2)] and None")
    pair.both("dist.destroy_process_group(passing)")
    for rank in (0, 1):
        assert pair.page(rank).report["groups"][name] == 2


def test_collective_that_waits_is_enqueued_but_not_completed(pair: Pair):
    pair.settle()
    before = pair.done(0)
    pair.ranks[0].tell("dist.barrier()")
    until(lambda: pair.done(0) == before + 1)
    until(lambda: _behind(pair) >= 1)
    pair.ranks[1].do("dist.barrier()")
    pair.ranks[0].answer()
    until(lambda: _behind(pair) == 0)


def _behind(pair: Pair) -> int:
    """Look at the default group: where two operations ended at once, torch's counter lags."""
    enqueued, completed = pair.page(0).report["status"]["0"]
    return enqueued - completed


def test_last_operations_of_each_group_are_few_and_the_newest(pair: Pair):
    pair.both("[dist.all_reduce(torch.ones(7)) for _ in range(12)] and None")
    pair.ranks[0].do("from unstuck.script.start import _probe")
    last = pair.ranks[0].do("_probe.beat._groups.last_operations()")
    mine = [entry for entry in last if entry["process_group"][0] == "0"]
    assert [entry["input_sizes"] for entry in mine] == [[[7]]] * 8
    assert mine[-1]["collective_seq_id"] == mine[0]["collective_seq_id"] + 7


def test_backend_that_nobody_records_is_said_with_the_reason(tmp_path: Path):
    """The `fake` backend of torch's own tests: it counts nothing, and no recorder knows it."""
    env = rank_env(tmp_path, 0, 2, 1)
    with child(tmp_path / "0", RANK, env) as rank:
        rank.do("import torch.testing._internal.distributed.fake_pg as fake")
        rank.do("dist.init_process_group('fake', rank=0, world_size=2, store=fake.FakeStore())")
        rank.do("dist.all_reduce(torch.ones(2)) and None")
        reader = PageReader(str(tmp_path / f"rank-0.{rank.pid}.page"))
        why = until(lambda: reader.read().report.get("unobserved", ""))
        reader.close()
    assert "does not record fake collectives: a hang in one would go unnoticed" in why
