"""What a real rank has: the timeouts of its groups and its store, and its variables."""

import json

from children import until
from pairs import Pair
from unstuck.observe.probe.own_timeouts import group_seconds, read, relevant


def test_only_what_looks_like_a_timeout_is_told() -> None:
    env = {
        "NCCL_TIMEOUT": "5400",
        "TORCH_NCCL_BLOCKING_WAIT": "1",
        "TORCH_DIST_TIMEOUT": "60",
        "NCCL_IB_TIMEOUT": "22",
        "SLURM_JOB_END_TIME": "1800007200",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "NCCL_DEBUG": "INFO",
    }
    assert set(relevant(env)) == set(env) - {"AWS_SECRET_ACCESS_KEY", "NCCL_DEBUG"}
    assert relevant({"NCCL_TIMEOUT": "x" * 500})["NCCL_TIMEOUT"] == "x" * 80


def test_a_torch_that_does_not_tell_costs_nothing_but_the_knowledge() -> None:
    assert group_seconds(object()) == 0.0
    assert read(object())["store"] == 0.0


def test_a_rank_tells_them_after_init(pair: Pair) -> None:
    path = pair.file(0, "settings")
    until(path.exists)
    told = json.loads(path.read_text())
    assert told["store"] > 0
    assert isinstance(told["env"], dict)


def test_a_group_without_a_timeout_has_torchs_default(pair: Pair) -> None:
    pair.both("from datetime import timedelta")
    pair.both("plain = dist.new_group([0, 1])")
    pair.both("short = dist.new_group([0, 1], timeout=timedelta(seconds=9))")
    plain, short = (pair.ranks[0].do(f"{name}.group_name") for name in ("plain", "short"))

    def members() -> dict[str, dict[str, float]]:
        return json.loads(pair.file(0, "groups").read_text())

    until(lambda: short in members())
    assert members()[plain]["timeout"] == 1800.0
    assert members()[short]["timeout"] == 9.0

    # It is looked at now and then: be there when it is.
    pair.ranks[0].do("from unstuck.script.start import _probe")
    pair.ranks[0].do("short.set_timeout(timedelta(seconds=4))")
    pair.ranks[0].do("setattr(_probe.beat._groups, '_looks', 48)")
    until(lambda: members()[short]["timeout"] == 4.0)
