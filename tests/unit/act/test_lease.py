"""At most one hub of a job may act."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from scenes import job
from unstuck.act.lease import Lease, quorum
from unstuck.model.snapshot import NodeState, Snapshot

HOLDS = (
    "import sys, pathlib\n"
    "from unstuck.act.lease import Lease\n"
    "from unstuck.model.snapshot import NodeState, Snapshot\n"
    "alone = Snapshot(0.0, (NodeState('h/1', 'h', nodes_wanted=1),))\n"
    "lease = Lease(pathlib.Path(sys.argv[1]))\n"
    "print(lease.why_not(alone) or 'may act', flush=True)\n"
    "sys.stdin.read()\n"
)
ALONE = Snapshot(0.0, (NodeState("h/1", "h", nodes_wanted=1),))


def test_dead_hub_gives_the_right_back_at_once(tmp_path: Path):
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "may act\n"
        mine = Lease(tmp_path)
        assert mine.why_not(ALONE) == "another hub of this run directory acts"
        other.kill()
        other.wait()
        assert mine.why_not(ALONE) == ""
        mine.release()


def heard(*hosts: str) -> Snapshot:
    """A job of four ranks on two hosts, seen by a hub that hears only some of them."""
    scene = job(4, per_host=2)
    for host in ("host0", "host1"):
        scene.node(host, silent_for=0.5 if host in hosts else 9.0)
    return scene.snapshot()


@pytest.mark.parametrize(
    ("hosts", "may"), [(("host0", "host1"), True), (("host0",), True), (("host1",), False)]
)
def test_more_than_half_or_half_with_rank_0(hosts: tuple[str, ...], may: bool):
    assert (quorum(heard(*hosts)) == "") is may


def test_two_hubs_that_share_nothing_cannot_both_act():
    whole = heard("host0", "host1")
    for mine in ({0, 1}, {0}, {1, 2, 3}, {2, 3}):
        views = [
            msgspec.structs.replace(
                whole,
                ranks=tuple(state for state in whole.ranks if (state.rank in mine) is side),
            )
            for side in (True, False)
        ]
        assert sum(quorum(view) == "" for view in views) == 1


def test_one_node_needs_no_majority():
    scene = job(4)
    scene.nodes["host0"] = NodeState("host0/1", "host0", nodes_wanted=1)
    snapshot = msgspec.structs.replace(scene.snapshot(), ranks=(), world_size=4)
    assert quorum(snapshot) == ""
