"""`unstuck timeouts` on runs, incidents, commands and the environment."""

import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from scenes import job
from unstuck.collect import bundle, timeouts_file
from unstuck.diagnose.timeouts import live
from unstuck.model.snapshot import Snapshot
from unstuck.model.timeouts import SCHEMA
from unstuck.show.cli.main import main

SCRIPT = """
from datetime import timedelta
import torch.distributed as dist
dist.init_process_group("gloo", timeout=timedelta(seconds=77))
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("NCCL_TIMEOUT", "SLURM_JOB_ID", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "train.py").write_text(SCRIPT)


def snapshot() -> Snapshot:
    scene = job(2, {"0": (0, 1), "1": (0, 1)})
    for rank in (0, 1):
        scene.progress(rank, "0", timeout=77.0, description="default_pg")
        scene.progress(rank, "1", timeout=1800.0, description="undefined")
    return scene.snapshot()


def run_directory(name: str) -> Path:
    path = Path("runs") / name
    path.mkdir(parents=True)
    timeouts_file.write(path, replace(live.read(snapshot()), source=f"2 ranks of {name}"))
    (path / "unstuck.json").write_text(json.dumps({"command": ["torchrun", "train.py"]}))
    return path


def test_a_run_shows_what_its_ranks_have_and_where_that_was_set(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["timeouts", str(run_directory("7"))]) == 1
    text = capsys.readouterr().out
    assert text.startswith("timeouts of 2 ranks of 7 (runs/7)\n")
    assert "77 s          train.py:4" in text
    assert "group 1: falls back to torch's default of 30 min" in text


def test_without_a_path_the_newest_run_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    run_directory("old")
    new = run_directory("new")
    later = new.stat().st_mtime + 60
    os.utime(new / timeouts_file.NAME, (later, later))
    main(["timeouts"])
    assert "2 ranks of new" in capsys.readouterr().out


def test_an_incident_has_them_too(capsys: pytest.CaptureFixture[str]) -> None:
    where = bundle.write(Path("run"), snapshot(), None, about={"command": ["torchrun", "train.py"]})
    assert main(["timeouts", str(where)]) == 1
    assert "train.py:4" in capsys.readouterr().out


def test_a_command_is_read_and_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["timeouts", "--", "torchrun", "--nproc-per-node", "2", "train.py"]) == 0
    assert "no setting conflicts" in capsys.readouterr().out
    assert main(["timeouts", "torchrun", "--rdzv-conf", "timeout=9", "train.py"]) == 1


def test_json_has_a_schema_and_all_parts(capsys: pytest.CaptureFixture[str]) -> None:
    main(["timeouts", "--json", str(run_directory("7"))])
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == SCHEMA == "unstuck.timeouts/1"
    assert set(found) == {"schema", "source", "knobs", "notes", "proposal", "unseen"}
    assert found["notes"][0]["kind"] == "conflict"
    assert found["proposal"][0]["line"].startswith("dist.new_group(")


def test_the_environment_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_directory("7")
    assert main(["timeouts", "--env"]) == 0
    monkeypatch.setenv("NCCL_TIMEOUT", "5400")
    assert main(["timeouts", "--env"]) == 1
    assert "NCCL_TIMEOUT=5400: neither torch nor NCCL" in capsys.readouterr().out


def test_where_no_run_told_any_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["timeouts"]) == 0
    assert "the environment, as no run below runs/ has reported any" in capsys.readouterr().out


def test_what_nobody_can_see_may_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["timeouts", "--longest", "2m", "--", "torchrun", "train.py"]) == 1
    assert "works alone for up to 2 min" in capsys.readouterr().out
    assert main(["timeouts", "--limit", "60", "--", "torchrun", "train.py"]) == 1
    assert "ends the job before torch" in capsys.readouterr().out
    assert main(["timeouts", "--limit", "1-00:00:00", "--", "torchrun", "train.py"]) == 0


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["nonsense"], "nonsense is neither a run directory nor a command"),
        (["--wrong"], "no such option: --wrong"),
        (["--limit", "soon"], "soon is not a duration"),
        (["--env", "runs"], "--env"),
        (["."], "no rank has reported its timeouts"),
    ],
)
def test_nonsense_is_refused_with_a_word_that_helps(
    capsys: pytest.CaptureFixture[str], arguments: list[str], word: str
) -> None:
    assert main(["timeouts", *arguments]) == 2
    assert word in capsys.readouterr().err
