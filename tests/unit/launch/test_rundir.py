"""The run directory and the live directory that belongs to it."""

import os
import socket
from pathlib import Path

import pytest

from unstuck.errors import UserError
from unstuck.launch import rundir
from unstuck.launch.rundir import LiveDirectory


def test_wanted_directory_is_taken_as_it_is(tmp_path: Path):
    wanted = tmp_path / "a" / "b"
    assert rundir.create(wanted, "train") == wanted
    assert wanted.stat().st_mode & 0o777 == 0o700
    assert rundir.create(wanted, "train") == wanted


def test_default_has_the_name_and_is_never_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    made = [rundir.create(None, "train") for _ in range(3)]

    assert len(set(made)) == 3
    assert all(path.parent == tmp_path / "runs" and "-train" in path.name for path in made)


def test_directory_that_cannot_be_made_is_the_users_to_put_right(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write the run directory") as caught:
        rundir.create(tmp_path / "file" / "run", "train")
    assert "--run-dir" in caught.value.hint


def test_live_directory_is_linked_and_goes_without_trace(tmp_path: Path):
    live = LiveDirectory(tmp_path, "node7")
    (live.path / "rank-0.1.page").touch()
    (link,) = tmp_path.iterdir()

    assert link.name == f"live-node7-{os.getpid()}"
    assert (link / "rank-0.1.page").exists()
    assert live.path.stat().st_mode & 0o777 == 0o700
    with socket.socket(socket.AF_UNIX) as short_enough:
        short_enough.bind(str(live.path / "rank-100000.4194304.sock"))
    live.remove()
    assert (list(tmp_path.iterdir()), live.path.exists()) == ([], False)


def test_link_that_an_earlier_run_left_behind_is_replaced(tmp_path: Path):
    # A container gives every run the same pid; one that was killed leaves its link.
    (tmp_path / f"live-node7-{os.getpid()}").symlink_to(tmp_path / "gone")
    live = LiveDirectory(tmp_path, "node7")
    assert (tmp_path / f"live-node7-{os.getpid()}").resolve() == live.path.resolve()
    live.remove()


def test_link_is_not_worth_a_job(tmp_path: Path):
    live = LiveDirectory(tmp_path / "gone", "node7")
    assert live.path.is_dir()
    live.remove()
    assert not live.path.exists()
