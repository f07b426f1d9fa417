"""Sections, heartbeats and verdicts in the ranks of real jobs, with and without `unstuck run`."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobs import unwatched
from unstuck.lab.hosts import Hosts
from unstuck.lab.job import LAUNCHER, TORCHRUN, Job

pytestmark = pytest.mark.system

ARTICLE = Path(__file__).parents[2] / "examples" / "article"
HEARS = """
import os, sys, time
import torch, torch.distributed as dist
import unstuck

def leave(verdict):
    culprits = [culprit.rank for culprit in verdict.culprits]
    print(f"rank {os.environ['RANK']} hears {verdict.cause} of {culprits}", flush=True)
    if int(os.environ["RANK"]) in culprits:
        go_on.set()

import threading
go_on = threading.Event()
unstuck.on_verdict(leave, on_recovery=lambda _: print("well again", flush=True))
dist.init_process_group("gloo")
for step in range(40):
    if step == 30 and dist.get_rank() == 1:
        with unstuck.section("wait for the verdict"):
            go_on.wait(60)
    dist.all_reduce(torch.ones(1))
    unstuck.step()
    time.sleep(0.05)
time.sleep(1)
dist.destroy_process_group()
"""
HOLDS_GIL = """
import ctypes, os
import torch, torch.distributed as dist
import unstuck

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
if dist.get_rank() == 1:
    library, lock = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
    with unstuck.section("a library call", timeout=1, on_timeout="abort"):
        library.pthread_mutex_lock(lock)
        library.pthread_mutex_lock(lock)  # with the GIL held, and no signal ends it
dist.all_reduce(torch.ones(1))
"""

WATCHES = """
import os, time
import torch, torch.distributed as dist
import unstuck

def note(text):
    with open(os.environ["HEARD"], "a") as file:
        file.write(f"{time.time():.2f} rank {os.environ['RANK']}: {text}\\n")

unstuck.watch(
    hub=os.environ["HUB"],
    run_dir=os.environ["RUN_DIR"],
    on_silent=lambda peer: note(f"{peer.rank} silent"),
    on_back=lambda peer: note(f"{peer.rank} back"),
)
dist.init_process_group("gloo")
stop, step = torch.zeros(1), 0
while not stop.item():
    if dist.get_rank() == 0 and os.path.exists(os.environ["STOP"]):
        stop += 1
    dist.all_reduce(stop)
    step += 1
    if step == 60:
        note("moves")
    time.sleep(0.05)
dist.destroy_process_group()
"""


def torchrun(ranks: int, script: Path, *arguments: str, folder: Path) -> str:
    """Run a script without `unstuck run` and return what all of it says."""
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone",
         f"--nproc-per-node={ranks}", str(script), *arguments],
        cwd=folder,
        env=unwatched(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """See to it that a job that watched itself leaves nothing in memory."""
    memory = Path("/dev/shm")
    before = set(memory.glob(f"unstuck-{os.getuid()}-*"))
    yield
    assert set(memory.glob(f"unstuck-{os.getuid()}-*")) <= before


def test_article_2_work_in_time_is_done(tmp_path: Path):
    said = torchrun(2, ARTICLE / "2_section.py", folder=tmp_path)
    assert "0 ranks were late" in said


def test_article_2_work_that_takes_too_long_is_left_and_all_ranks_go_on(tmp_path: Path):
    arguments = ("--work", "60", "--limit", "1.5")
    said = torchrun(2, ARTICLE / "2_section.py", *arguments, folder=tmp_path)
    late = re.search(r"rank 1: section 'my function' has taken 1.5 s, its timeout, .* (\S+)", said)
    assert late, said
    assert late[1] == "my_function"
    together = re.search(r"1 ranks were late; all continue together after ([\d.]+) s", said)
    assert together, said
    assert 1.5 <= float(together[1]) < 15


@pytest.mark.usefixtures("nothing_left")
def test_article_3_all_others_hear_of_a_stopped_rank_before_anything_times_out(tmp_path: Path):
    arguments = ("--stop", "1", "--run-dir", str(tmp_path / "run"))
    said = torchrun(3, ARTICLE / "3_heartbeat.py", *arguments, folder=tmp_path)
    stopped = float(re.findall(r"([\d.]+) rank 1: stops", said)[0])
    heard = re.findall(r"([\d.]+) rank (\d): rank 1 is silent \((\w+)\)", said)
    assert sorted(rank for _, rank, _ in heard) == ["0", "2"], said
    assert {state for _, _, state in heard} == {"stopped"}
    assert all(float(when) - stopped < 8 for when, _, _ in heard), said
    assert sorted(re.findall(r"rank (\d): rank 1 is back", said)) == ["0", "2"], said
    assert "3 ranks, silent: []" in said


def test_verdict_reaches_every_rank_and_the_culprit_can_act_on_it(
    start: Callable[..., Job], tmp_path: Path
):
    script = tmp_path / "hears.py"
    script.write_text(HEARS)
    job = start(*TORCHRUN, str(script), options=("--patience", "3s"))
    assert job.wait_exit(90) == 0, job.words()
    said = job.stdout.read_text()
    heard = re.findall(r"rank (\d) hears (\S+) of \[1\]", said)
    assert sorted(rank for rank, _ in heard) == ["0", "1", "2", "3"], said
    assert len({cause for _, cause in heard}) == 1
    assert "well again" in said


def test_section_ends_a_rank_that_holds_the_gil(start: Callable[..., Job], tmp_path: Path):
    script = tmp_path / "holds.py"
    script.write_text(HOLDS_GIL)
    job = start(*LAUNCHER, "--standalone", "--nproc-per-node", "2", str(script))
    assert job.wait_exit(90) != 0
    said = job.stderr.read_text()
    assert "rank 1: section 'a library call' has taken 1 s, its timeout, and it cannot run" in said
    assert "the threads of rank 1:" in said


def begin(hosts: Hosts, i: int, env: dict[str, str], folder: Path) -> subprocess.Popen[bytes]:
    """Start the torchrun of one host, without `unstuck run`."""
    first, own = hosts.address(0), hosts.address(i)
    size = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-id", "job"]
    where = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{first}:29400", "--local-addr", own]
    command = hosts.command(i, [*LAUNCHER, *size, *where, str(folder / "watches.py")])
    with (folder / f"stderr{i}").open("wb") as stderr:
        return subprocess.Popen(command, env=env, stderr=stderr)


@pytest.mark.namespaces
@pytest.mark.timeout(400)  # two torchruns that find each other on a machine that may be busy
def test_both_sides_of_a_cut_hear_it_while_their_collectives_only_wait(
    two_hosts: Hosts, tmp_path: Path
):
    (tmp_path / "watches.py").write_text(WATCHES)
    heard, stop = tmp_path / "heard", tmp_path / "stop"
    heard.touch()
    first = two_hosts.address(0)
    env = {
        **unwatched(),
        "HEARD": str(heard), "STOP": str(stop), "RUN_DIR": str(tmp_path / "run"),
        "HUB": f"{first}:29600",
    }  # fmt: skip
    started = [begin(two_hosts, i, env, tmp_path) for i in range(2)]
    try:
        wait_for(heard, "rank 1: moves", 250)
        time.sleep(5)  # the agents learn how the other one usually comes
        cut = time.time()
        two_hosts.cut(1)
        silent = [wait_for(heard, "rank 0: 1 silent"), wait_for(heard, "rank 1: 0 silent")]
        two_hosts.heal(1)
        wait_for(heard, "rank 0: 1 back")
        wait_for(heard, "rank 1: 0 back")
        stop.touch()
        assert [process.wait(60) for process in started] == [0, 0]
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(60)
    assert silent[0] - cut < 10
    assert silent[1] - cut < 10
    assert heard.read_text().count(" silent\n") == 2, heard.read_text()


def wait_for(file: Path, words: str, timeout: float = 60) -> float:
    """Wait for a line of a rank and return its time."""
    deadline = time.monotonic() + timeout
    while not (found := re.search(rf"([\d.]+) {words}", file.read_text())):
        assert time.monotonic() < deadline, f"not heard: {words}\n{file.read_text()}"
        time.sleep(0.05)
    return float(found[1])
