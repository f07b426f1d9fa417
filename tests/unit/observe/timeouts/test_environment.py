"""What variables set, and the limit of the scheduler."""

import os
from pathlib import Path

import pytest

from unstuck.model.timeouts import Layer, Origin
from unstuck.observe.timeouts import environment

START = 1_800_000_000


def test_units_are_those_of_the_variables() -> None:
    env = {
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "1200",
        "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "60000",
        "PATH": "/bin",
    }
    found = {knob.name: knob.seconds for knob in environment.read(env, nccl=False)}
    assert found == {
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": 1200.0,
        "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": 60.0,
    }


def test_with_nccl_the_defaults_that_matter_are_shown() -> None:
    found = {knob.name: (knob.seconds, knob.origin) for knob in environment.read({}, nccl=True)}
    assert found["TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"] == (480.0, Origin.DEFAULT)
    assert environment.read({}, nccl=False) == ()


def test_what_torchrun_sets_in_every_worker_was_not_set_by_the_user() -> None:
    worker = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", "TORCHELASTIC_RUN_ID": "none"}
    assert environment.read(worker, nccl=False) == ()
    assert environment.read({**worker, "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}, nccl=False)
    assert environment.read({"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}, nccl=False)


def test_slurm_tells_the_limit_of_its_job() -> None:
    env = {
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_START_TIME": str(START),
        "SLURM_JOB_END_TIME": str(START + 7200),
    }
    (knob,), unseen = environment.scheduler(env, START + 60.0)
    assert (knob.name, knob.layer, knob.seconds) == ("Slurm job 4711", Layer.SCHEDULER, 7200.0)
    assert unseen == ()


def test_older_slurm_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "scontrol"
    script.write_text("#!/bin/sh\necho JobId=$3 TimeLimit=1-00:00:00 EndTime=2027-01-15T08:00:00\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (knob,), _ = environment.scheduler({"SLURM_JOB_ID": "7"}, START, ask=True)
    assert (knob.seconds, knob.about) == (86400.0, "ends 2027-01-15T08:00:00")


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({"SLURM_JOB_ID": "7"}, "scontrol show job 7"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "--limit"),
    ],
)
def test_a_limit_that_cannot_be_seen_is_said_to_be_unseen(env: dict[str, str], told: str) -> None:
    knobs, unseen = environment.scheduler(env, START)
    assert knobs == ()
    assert told in unseen[0]
