"""The launch command stays as it is, but for the script; and a launch that fails is explained."""

import os
import sys

import pytest

from unstuck.errors import UsageError, WorldError
from unstuck.launch.rehearsal.rehearse import rehearse, rehearsed

OURS = ["-m", "unstuck.launch.rehearsal.program"]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("torchrun --nnodes 2 train.py --lr 1", ["torchrun", "--nnodes", "2", *OURS]),
        ("torchrun --standalone -m pkg.train -x", ["torchrun", "--standalone", *OURS]),
        ("torchrun --no-python ./wrap.sh", ["torchrun", *OURS]),
        ("srun -n4 torchrun --nnodes=2 -- t.py", ["srun", "-n4", "torchrun", "--nnodes=2", *OURS]),
        ("mpirun -n 2 python -u train.py", ["mpirun", "-n", "2", "python", *OURS]),
        ("python -m torch.distributed.run t.py", ["python", "-m", "torch.distributed.run", *OURS]),
    ],
)  # fmt: skip
def test_our_check_takes_the_place_of_the_script(command: str, expected: list[str]) -> None:
    assert rehearsed(command.split()) == expected


def test_a_command_without_a_script_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot see where the script is"):
        rehearsed(["make", "train"])


def test_a_launcher_that_is_not_there_is_the_world_s_fault() -> None:
    with pytest.raises(WorldError, match="cannot be started"):
        rehearse(["/no/such/torchrun", "train.py"], os.environ)


def test_a_launch_that_starts_no_rank_shows_the_launcher_s_last_words() -> None:
    found = rehearse(
        [sys.executable, "-X", "nonsense", "/no/such/dir/python", "t.py"], {"PATH": ""}
    )

    assert found.checks[0].name == "ranks"
    assert not found.whole
