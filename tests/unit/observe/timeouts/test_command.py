"""A launch command that need not run yet."""

from pathlib import Path

import pytest

from unstuck.model.timeouts import Layer, Origin
from unstuck.observe.timeouts import command

SCRIPT = """
import os
from datetime import timedelta
import torch.distributed as dist
os.environ["NCCL_TIMEOUT"] = "5400"
dist.init_process_group("nccl", timeout=timedelta(seconds=77))
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "train.py").write_text(SCRIPT)
    return tmp_path


@pytest.mark.parametrize(
    "argv",
    [
        ("torchrun", "--nproc-per-node", "4", "train.py", "--lr", "1"),
        ("torchrun", "-m", "pkg.train"),
        ("python", "train.py"),
        ("python", "-m", "torch.distributed.run", "train.py"),
        ("srun", "-n", "4", "torchrun", "train.py"),
    ],
)
def test_the_script_is_found_and_read(here: Path, argv: tuple[str, ...]) -> None:
    found = command.read(argv, {}, 0.0)
    (group,) = [k for k in found.knobs if k.layer is Layer.GROUP]
    assert (group.seconds, group.origin) == (77.0, Origin.SCRIPT)
    assert found.backends == ("nccl",)


def test_what_the_script_sets_is_told_with_its_line(here: Path) -> None:
    found = command.read(("torchrun", "train.py"), {}, 0.0)
    (knob,) = [k for k in found.knobs if k.name == "NCCL_TIMEOUT"]
    assert (knob.value, knob.origin, knob.where) == ("5400", Origin.SCRIPT, "train.py:5")


def test_a_script_that_makes_no_group_itself_is_said_so(here: Path) -> None:
    (here / "other.py").write_text("import lightning\n")
    found = command.read(("torchrun", "other.py"), {}, 0.0)
    assert "other.py does not create it itself" in found.unseen[0]


def test_without_a_command_the_environment_is_read() -> None:
    found = command.read((), {"NCCL_TIMEOUT": "1"}, 0.0)
    assert [knob.name for knob in found.knobs] == ["NCCL_TIMEOUT"]
    assert found.source == "the environment"
