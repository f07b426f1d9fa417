"""Ranks that run and have not imported torch yet."""

import os
import subprocess
import sys
from pathlib import Path

from unstuck.observe.node import starting


def sign(live: Path, rank: int, pid: int) -> Path:
    path = live / f"rank-{rank}.{pid}.born"
    path.touch()
    return path


def test_a_process_without_a_page_is_seen(tmp_path: Path):
    sign(tmp_path, 3, os.getpid())
    (state,) = starting.look(tmp_path, "node7", set())
    assert (state.rank, state.host, state.phase) == (3, "node7", "born")
    assert state.process.pid == os.getpid()
    assert state.age > 0


def test_a_rank_that_has_a_page_needs_no_sign(tmp_path: Path):
    left = sign(tmp_path, 3, os.getpid())
    assert starting.look(tmp_path, "node7", {3}, {os.getpid()}) == []
    assert not left.exists()


def test_a_rank_of_which_only_a_helper_has_a_page_keeps_its_sign(tmp_path: Path):
    left = sign(tmp_path, 3, os.getpid())
    assert starting.look(tmp_path, "node7", {3}, {1}) == []
    assert left.exists()


def test_a_process_that_has_ended_is_forgotten(tmp_path: Path):
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    left = sign(tmp_path, 3, ended.pid)
    assert starting.look(tmp_path, "node7", set()) == []
    assert not left.exists()


def test_the_first_process_of_a_rank_counts(tmp_path: Path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        sign(tmp_path, 3, child.pid)
        sign(tmp_path, 3, os.getpid())
        (state,) = starting.look(tmp_path, "node7", set())
        assert state.process.pid == os.getpid()
        child.communicate(b"\n")
