"""Launch commands in all their spellings."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from unstuck.errors import UserError
from unstuck.launch.command import LaunchCommand, understand
from unstuck.observe.timeouts import launch_options

FLAGS = """
import json
from torch.distributed.run import get_args_parser
flags = [s for a in get_args_parser()._actions if a.nargs == 0 for s in a.option_strings]
print(json.dumps(sorted({f.replace("_", "-") if f.startswith("--") else f for f in flags})))
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()


def read(line: str, **env: str) -> LaunchCommand:
    return understand(line.split(), env)


@pytest.mark.parametrize(
    ("line", "several"),
    [
        ("torchrun train.py", False),
        ("torchrun --nnodes=2 train.py", True),
        ("torchrun --nnodes 2 train.py", True),
        ("torchrun --nnodes=1 train.py", False),
        ("torchrun --nnodes 1:4 train.py", True),
        ("torchrun --nnodes=1:1 train.py", False),
        ("torchrun --standalone --nnodes=2 train.py", False),
        ("torchrun --nproc_per_node 8 train.py --nnodes 2", False),
        ("torchrun --nproc-per-node=8 -r3 --nnodes=2 train.py", True),
        ("torchrun -r 3 -t 3 --nnodes=2 train.py", True),
        ("torchrun --nnodes=2 -- train.py", True),
        ("/opt/venv/bin/torchrun --nnodes=2 train.py", True),
        ("srun --ntasks 2 torchrun --nnodes=2 train.py", True),
        ("python -m torch.distributed.run --nnodes=2 train.py", True),
        ("python3.11 -u -m torch.distributed.launch --nnodes=2 train.py", True),
        ("python train.py torchrun --nnodes=2", False),
    ],
)
def test_number_of_nodes(line: str, several: bool):
    found = read(line)
    assert found.several_nodes is several
    assert found.name == "train"
    assert found.argv == tuple(line.split())


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("torchrun -m train.main --x", "train.main"),
        ("torchrun --module train.main", "train.main"),
        ("torchrun --no-python ./run.sh", "run"),
        ("torchrun --no_python ./run.sh", "run"),
        ("python -m pkg.train", "pkg.train"),
        ("python -X dev -W error train.py", "train"),
        ("python -", "python"),
        ("bash run.sh", "bash"),
        ("torchrun", "job"),
        ("./run:all$.sh", "run-all-"),
    ],
)
def test_name_of_the_run(line: str, name: str):
    assert read(line).name == name


def test_name_is_one_that_fits_in_a_path(tmp_path: Path):
    script = tmp_path / f"{'训练 模型' * 12}.py"
    script.touch()
    name = understand(["torchrun", str(script)], {}).name

    assert len(name) == 40
    assert not set(name) & set(" /\\:")


@pytest.mark.parametrize(
    ("line", "env", "master"),
    [
        ("torchrun --nnodes=2 --rdzv-endpoint=node0:29400 train.py", {}, "node0"),
        ("torchrun --nnodes=2 --rdzv_endpoint node0 train.py", {}, "node0"),
        ("torchrun --nnodes=2 --master-addr node0 train.py", {}, "node0"),
        ("torchrun --nnodes=2 --master_addr=node0 --master_port=7 train.py", {}, "node0"),
        ("torchrun train.py", {"PET_NNODES": "2", "PET_RDZV_ENDPOINT": "node0:1"}, "node0"),
        ("torchrun train.py", {"PET_NNODES": "2", "PET_MASTER_ADDR": "node0"}, "node0"),
        ("python train.py", {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "node0"}, "node0"),
    ],
)
def test_first_node(line: str, env: dict[str, str], master: str):
    found = read(line, **env)
    assert (found.several_nodes, found.master) == (True, master)


@pytest.mark.parametrize(
    ("line", "env", "rank"),
    [
        ("torchrun --node-rank=1 train.py", {}, 1),
        ("torchrun --node_rank 1 train.py", {}, 1),
        ("torchrun train.py", {"PET_NODE_RANK": "3"}, 3),
        ("torchrun --node-rank auto train.py", {}, None),
        ("torchrun train.py", {}, None),
    ],
)
def test_rank_of_the_node(line: str, env: dict[str, str], rank: int | None):
    assert read(line, **env).node_rank == rank


@pytest.mark.parametrize(
    ("env", "several"),
    [
        ({"RANK": "1", "WORLD_SIZE": "4"}, True),
        ({"RANK": "0", "WORLD_SIZE": "1"}, False),
        ({"WORLD_SIZE": "4"}, False),
        ({"RANK": "0", "WORLD_SIZE": ""}, False),
        ({"RANK": "0", "WORLD_SIZE": "four"}, False),
        ({"RANK": "0"}, False),
    ],
)
def test_plain_python_under_somebody_elses_launcher(env: dict[str, str], several: bool):
    assert read("python train.py", **env).several_nodes is several


@pytest.mark.parametrize(
    "line", ["torchrun missing.py", "python missing.py", "python -u missing.py --x",
             "python -m torch.distributed.run --nnodes=2 missing.py"]
)  # fmt: skip
def test_missing_script_is_named_before_anything_starts(line: str):
    with pytest.raises(UserError, match=r"there is no script missing\.py here") as caught:
        read(line)
    assert "check the path" in caught.value.hint


@pytest.mark.parametrize(
    "line", ["torchrun -m missing", "torchrun --no-python missing", "python -m missing",
             "python -c print(1)", "accelerate launch missing.py"]
)  # fmt: skip
def test_what_cannot_be_checked_is_left_to_the_launcher(line: str):
    assert read(line).argv == tuple(line.split())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("--rdzv-endpoint=a:1", "--rdzv-endpoint=a:2"),
        ("--rdzv-endpoint=a:1 --rdzv-id=x", "--rdzv-endpoint=a:1 --rdzv-id=y"),
        ("--master-addr=a --master-port=1", "--master-addr=a --master-port=2"),
        ("--master-addr=a", "--master-addr=b"),
    ],
)
def test_jobs_are_told_apart(one: str, other: str):
    first, same, second = (
        read(f"torchrun --nnodes=2 --node-rank={rank} {options} train.py").job
        for rank, options in ((0, one), (1, one), (0, other))
    )
    assert first == same != second


def test_jobs_of_slurm_are_told_apart():
    line = "torchrun --nnodes=2 --master-addr=a train.py"
    assert read(line, SLURM_JOB_ID="1").job != read(line, SLURM_JOB_ID="2").job


def test_options_without_a_value_are_torchs_own():
    done = subprocess.run([sys.executable, "-c", FLAGS], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) - launch_options._FLAGS == set()


@pytest.mark.parametrize(
    ("command", "env", "grace"),
    [
        ("torchrun train.py", {}, 30.0),
        ("torchrun --shutdown-timeout=90 train.py", {}, 90.0),
        ("torchrun train.py", {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "5"}, 5.0),
        ("python train.py", {}, 30.0),
    ],
)
def test_how_long_ranks_may_take_to_end(command: str, env: dict[str, str], grace: float):
    assert read(command, **env).grace == grace


@pytest.mark.parametrize(
    ("command", "restarts"),
    [
        ("torchrun train.py", 0),
        ("torchrun --max-restarts=3 train.py", 3),
        ("torchrun --max_restarts 2 train.py", 2),
        ("python train.py", None),
    ],
)
def test_how_often_the_launcher_restarts(
    command: str, restarts: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    assert understand(command.split(), {}).max_restarts == restarts
