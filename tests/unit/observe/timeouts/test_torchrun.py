"""The timeouts of torchrun, and those that its rendezvous never reads."""

import json
import subprocess
import sys

import pytest

from unstuck.model.timeouts import NoteKind, Origin
from unstuck.observe.timeouts import torchrun

TWO = ["torchrun", "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=node0:29400"]
TORCHS_OWN = """
import json
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import RendezvousTimeout
found = {f"{name}_timeout": value.total_seconds()
         for name, value in RendezvousTimeout._DEFAULT_TIMEOUTS.items()}
from torch.distributed.launcher.api import LaunchConfig
config = LaunchConfig(1, 1, 1)
found["timeout"] = config.rdzv_configs["timeout"]
found["shutdown"] = config.shutdown_timeout
print(json.dumps(found))
"""


def seconds(*argv: str, **env: str) -> dict[str, float | None]:
    return {knob.name: knob.seconds for knob in torchrun.read(argv, env)[0]}


def idle(*argv: str) -> list[str]:
    notes = torchrun.read(argv, {})[1]
    return [note.knobs[0] for note in notes if note.kind is NoteKind.IDLE]


def test_one_node_shows_only_what_was_given() -> None:
    assert seconds("torchrun", "--nproc-per-node=4", "train.py") == {}
    assert seconds("torchrun", "--monitor-interval", "5", "train.py") == {"monitor interval": 5.0}


def test_several_nodes_show_the_rendezvous_and_the_end() -> None:
    found = seconds(*TWO, "--rdzv-conf", "join_timeout=1200", "train.py")
    assert found["c10d join_timeout"] == 1200.0
    assert found["c10d read_timeout"] == 60.0
    assert found["exit barrier"] == 300.0


def test_the_defaults_are_torchs_own() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TORCHS_OWN], capture_output=True, text=True, check=True
    )
    torchs = json.loads(done.stdout)
    mine = {**torchrun._DYNAMIC, **torchrun._STATIC}
    for name in ("join_timeout", "last_call_timeout", "close_timeout", "heartbeat_timeout"):
        assert mine[name][0] == torchs[name]
    assert mine["timeout"][0] == torchs["timeout"]
    assert torchs["shutdown"] == 30


@pytest.mark.parametrize(
    ("argv", "ignored"),
    [
        ([*TWO, "--rdzv-conf=timeout=60"], ["--rdzv-conf timeout=60"]),
        (["torchrun", "--rdzv-conf", "timeout=60"], ["--rdzv-conf timeout=60"]),
        (
            ["torchrun", "--nnodes=2", "--master-port=29500", "--rdzv-conf=join_timeout=9"],
            ["--rdzv-conf join_timeout=9"],
        ),
        (["torchrun", "--nnodes=2", "--rdzv-conf=timeout=9"], []),
        ([*TWO, "--rdzv-conf=join_timout=9"], ["--rdzv-conf join_timout=9"]),
        ([*TWO, "--rdzv-conf=read_timeout=9,keep_alive_max_attempt=2"], []),
    ],
)
def test_a_key_that_the_rendezvous_does_not_read(argv: list[str], ignored: list[str]) -> None:
    assert idle(*argv, "train.py") == ignored


def test_a_last_call_is_made_only_when_the_number_of_nodes_may_vary() -> None:
    fixed = idle(*TWO, "--rdzv-conf", "last_call_timeout=5", "train.py")
    elastic = idle("torchrun", "--nnodes=2:4", "--rdzv-backend=c10d", "--rdzv-endpoint=a:1",
                   "--rdzv-conf", "last_call_timeout=5", "train.py")  # fmt: skip
    assert (fixed, elastic) == (["--rdzv-conf last_call_timeout=5"], [])


def test_the_shutdown_timeout_may_come_from_a_variable() -> None:
    (knob,), _ = torchrun.read(["torchrun", "t.py"], {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "90"})
    assert (knob.seconds, knob.origin) == (90.0, Origin.ENVIRONMENT)


def test_other_launchers_have_none_of_these() -> None:
    assert torchrun.read(["python", "train.py"], {}) == ((), ())
