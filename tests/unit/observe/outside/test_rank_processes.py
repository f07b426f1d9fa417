"""Ranks are found among the processes of a machine, and nothing else is taken for one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from children import Child, child
from unstuck.errors import UserError
from unstuck.observe.outside.rank_processes import find, in_group

ORPHAN = """
import os
if os.fork():
    os._exit(0)
"""
"""Below a pytest that has made process groups itself, everything would be a helper of a rank."""
THREAD = (
    ORPHAN
    + """
import ctypes, subprocess, sys, threading
def named():
    ctypes.CDLL(None).prctl(15, b"gloo_tcp_loop")
    ready.set()
    threading.Event().wait()
ready = threading.Event()
threading.Thread(target=named, daemon=True).start()
ready.wait()
"""
)


def rank(folder: Path, number: int, port: int, **more: str) -> Child:
    env = {**os.environ, "RANK": str(number), "WORLD_SIZE": "2", "LOCAL_RANK": str(number)}
    env |= {"LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    started = Child(folder / f"{port}-{number}", "import subprocess, sys\n", {**env, **more})
    started.do("1")
    return started


def test_the_ranks_of_a_job_are_found_by_one_of_them_and_by_the_job_s_id(tmp_path: Path) -> None:
    ids = {"TORCHELASTIC_RUN_ID": "run-815"}
    ranks = [rank(tmp_path, number, 29871, **ids) for number in range(2)]
    other = rank(tmp_path, 0, 29872)
    try:
        by_pid = find([ranks[1].pid])
        by_id = find(job="run-815")
        listed = find()
    finally:
        for one in (*ranks, other):
            one.end()

    assert {job: [r.pid for r in found] for job, found in by_pid.items()} == {
        "127.0.0.1:29871": [one.pid for one in ranks]
    }
    assert by_id == by_pid
    assert {"127.0.0.1:29871", "127.0.0.1:29872"} <= listed.keys()
    first = by_pid["127.0.0.1:29871"][0]
    assert (first.rank, first.world_size, first.local_size) == (0, 2, 2)


def test_a_worker_of_a_rank_has_its_number_and_is_not_the_rank(tmp_path: Path) -> None:
    one = rank(tmp_path, 0, 29873)
    try:
        one.do("worker = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=-1)")
        worker = one.do("worker.pid")
        [found] = find([worker]).values()
    finally:
        one.do("worker.kill()")
        one.end()

    assert [each.pid for each in found] == [one.pid]


def test_spawned_ranks_without_a_number_are_known_by_their_threads(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    with child(tmp_path / "0", THREAD, env) as first, child(tmp_path / "1", THREAD, env) as second:
        pids = sorted((first.do("os.getpid()"), second.do("os.getpid()")))
        assert in_group(pids[0])
        [found] = find([pids[1]]).values()

    assert [each.pid for each in found] == pids
    assert [each.rank for each in found] == [0, 1]
    assert all(each.guessed and each.world_size == 2 for each in found)


def test_a_pid_that_is_not_there_and_one_that_is_no_rank_are_refused_in_one_line(
    tmp_path: Path,
) -> None:
    with pytest.raises(UserError, match=r"there is no process 4194305 here"):
        find([4194305])
    with child(tmp_path, ORPHAN) as plain:
        pid = plain.do("os.getpid()")
        with pytest.raises(UserError, match=r"is not a rank") as refused:
            find([pid])
    assert "pid of a rank or of its launcher" in refused.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_another_user_s_process_is_refused_with_whom_it_belongs_to(tmp_path: Path) -> None:
    with child(tmp_path, ORPHAN) as roots:
        pid = roots.do("os.getpid()")
        code = (
            "import os, sys, unstuck.show.cli.attach; from unstuck.show.cli.main import main; "
            "os.setuid(65534); sys.exit(main(['attach', sys.argv[1]]))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(pid)],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )

    assert done.returncode == 2
    assert "belongs to root; only its owner and root may look into it" in done.stderr
    assert f"sudo unstuck attach {pid}" in done.stderr
