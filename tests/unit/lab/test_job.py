"""A job of the lab: it is found by its mark, says how it ends, and takes its files with it."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from unstuck.errors import JobOverdueError
from unstuck.lab.job import Job, forget_live, node_torchrun, temporary_files_in, verdicts
from unstuck.model.verdict import SCHEMA

Start = Callable[..., Job]
WHERE = "import os, tempfile; print(tempfile.mkdtemp(), os.environ['TORCHINDUCTOR_CACHE_DIR'])"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a command that needs no torch under `unstuck run`."""
    started: list[Job] = []

    def begin(*command: str) -> Job:
        started.append(Job(tmp_path / str(len(started)), command))
        return started[-1]

    yield begin
    for job in started:
        job.kill()


def test_exit_code_and_words_are_the_commands_own(start: Start):
    job = start("sh", "-c", "echo a word; exit 3")
    assert job.wait_exit(20) == 3
    assert "a word" in job.words()
    assert job.verdicts() == []


def test_what_a_job_does_not_do_in_time_is_an_error_with_its_last_words(start: Start):
    job = start("sh", "-c", "echo still here; exec sleep 600")
    assert job.wait_watched() == "hub"
    job._until(lambda: job.stdout.read_text() or None, 20, "it says nothing")
    with pytest.raises(JobOverdueError, match=r"(?s)still running after 0.1 s.*still here"):
        job.wait_exit(0.1)
    with pytest.raises(JobOverdueError, match="the fault never began"):
        job.wait_onset(0.1)


def test_onset_is_the_time_that_the_program_wrote(start: Start):
    job = start("sh", "-c", 'echo 12.5 > "$ONSET_FILE"')
    assert job.wait_onset(20) == 12.5


def test_kill_ends_also_a_process_that_has_left_its_session(start: Start):
    job = start("sh", "-c", "setsid sleep 600 & echo up; wait")
    job._until(lambda: job.stdout.read_text() or None, 20, "it did not start")
    assert len(job.pids()) >= 3
    job.kill()
    assert job.pids() == set()
    assert [*job.run_dir.glob("live-*")] == []


def test_temporary_files_go_with_the_job_and_the_compilers_cache_stays(start: Start):
    job = start(sys.executable, "-c", WHERE)
    assert job.wait_exit(20) == 0
    folder, cache = job.stdout.read_text().split()
    assert Path(folder).is_dir()
    assert Path(folder).parent not in Path(cache).parents
    job.kill()
    assert not Path(folder).exists()


def test_cache_that_was_chosen_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/chosen")
    files = temporary_files_in(tmp_path)
    assert files == {"TMPDIR": str(tmp_path), "TORCHINDUCTOR_CACHE_DIR": "/chosen"}


def test_verdicts_are_read_in_the_order_of_their_incidents(tmp_path: Path):
    for number, verdict in ((10, {"cause": "b"}), (9, {"cause": "a"}), (11, None)):
        folder = tmp_path / f"incident-{number}"
        folder.mkdir()
        (folder / "verdict.json").write_text(json.dumps({"schema": SCHEMA, "verdict": verdict}))
    assert [verdict["cause"] for verdict in verdicts(tmp_path)] == ["a", "b"]


def test_live_directory_of_a_killed_run_is_removed_with_its_link(tmp_path: Path):
    memory, run = tmp_path / "memory", tmp_path / "run"
    memory.mkdir()
    run.mkdir()
    (run / "live-host-1").symlink_to(memory)
    (run / "live-notes").write_text("a file of somebody else")
    forget_live(run)
    assert os.listdir(run) == ["live-notes"]
    assert not memory.exists()


def test_nodes_meet_at_the_first_one():
    command = node_torchrun("10.0.0.1", "10.0.0.2", nodes=3, ranks=1)
    assert command[command.index("--rdzv-endpoint") + 1] == "10.0.0.1:29400"
    assert command[command.index("--local-addr") + 1] == "10.0.0.2"
    assert command[command.index("--nnodes") + 1] == "3"
