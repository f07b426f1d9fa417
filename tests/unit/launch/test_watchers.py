"""Agent and hub of a node: started, restarted, given up, ended; never in the job's way."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from children import PAGE, child, rank_env, until
from clocks import FakeClock
from unstuck.launch import leftovers
from unstuck.launch.command import understand
from unstuck.launch.hubplace import find
from unstuck.launch.watchers import Watchers
from unstuck.observe.node.process import procfs


@pytest.fixture
def live(tmp_path: Path) -> Path:
    (tmp_path / "live").mkdir()
    return tmp_path / "live"


@pytest.fixture
def make(tmp_path: Path, live: Path) -> Iterator[Callable[[], Watchers]]:
    (tmp_path / "run").mkdir()
    place = find(understand(["torchrun", "-m", "train"], {}), None, {})
    made: list[Watchers] = []

    def start() -> Watchers:
        argv = ("torchrun", "-m", "train")
        made.append(Watchers(tmp_path / "run", live, "node7", place, argv))
        made[-1].start()
        return made[-1]

    yield start
    for watchers in made:
        for process in watchers._processes.values():
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
    assert place.listener is not None
    place.listener.close()


def facts_of(tmp_path: Path) -> dict[str, object]:
    return json.loads((tmp_path / "run" / "unstuck.json").read_text())


def test_both_are_started_in_sessions_of_their_own(make: Callable[[], Watchers], tmp_path: Path):
    watchers = make()
    facts = facts_of(tmp_path)

    assert watchers.pids() == {facts["agent_pid"], facts["hub_pid"]}
    assert facts["command"] == ["torchrun", "-m", "train"]
    until(lambda: all(os.getsid(pid) == pid for pid in watchers.pids()))


def test_token_is_in_no_command_line(make: Callable[[], Watchers]):
    watchers = make()
    for pid in watchers.pids():
        line = Path(f"/proc/{pid}/cmdline").read_text()
        assert watchers.hub.token not in line


@pytest.mark.parametrize("name", ["agent", "hub"])
def test_one_that_died_is_started_again_and_the_other_is_left_alone(
    make: Callable[[], Watchers], tmp_path: Path, live: Path, name: str,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    watchers = make()
    before = facts_of(tmp_path)
    with child(tmp_path / "child", PAGE, rank_env(live)) as rank:
        rank.do("1")
        pid = before[f"{name}_pid"]
        assert isinstance(pid, int)
        os.kill(pid, signal.SIGKILL)
        until(lambda: (s := procfs.stat(pid)) is None or s.state == "Z")
        watchers.check()
        watchers.check()
        after = facts_of(tmp_path)

        assert [key for key in ("agent_pid", "hub_pid") if after[key] != before[key]] == [
            f"{name}_pid"
        ]
        assert capsys.readouterr().err == (
            f"unstuck: the {name} died (exit code -9); restarting it\n"
        )


def die(watchers: Watchers, name: str = "agent") -> None:
    watchers._processes[name].kill()
    watchers._processes[name].wait()
    watchers.check()


def test_one_that_keeps_dying_is_started_ever_more_rarely_and_says_so_once(
    make: Callable[[], Watchers], capsys: pytest.CaptureFixture[str]
):
    watchers = make()
    watchers.clock = clock = FakeClock()
    for _ in range(6):
        die(watchers)
    for _ in range(3):
        watchers.check()
        watchers.send("stopping")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 6
    assert lines[-1].startswith("unstuck: the agent died again (exit code -9); the job continues")
    assert "agent" not in watchers._processes

    clock.sleep(31)
    watchers.check()
    assert watchers._processes["agent"].poll() is None
    die(watchers)
    assert capsys.readouterr().err == ""


def test_a_death_now_and_then_never_uses_the_restarts_up(
    make: Callable[[], Watchers], capsys: pytest.CaptureFixture[str]
):
    watchers = make()
    watchers.clock = clock = FakeClock()
    for _ in range(8):
        die(watchers, "hub")
        clock.sleep(40)
        assert watchers._processes["hub"].poll() is None
    assert "died again" not in capsys.readouterr().err


def test_word_to_an_agent_that_is_gone_is_lost_without_noise(make: Callable[[], Watchers]):
    watchers = make()
    watchers._processes["agent"].kill()
    watchers._processes["agent"].wait()
    watchers.send("exit", 7, 0)
    watchers.send("stopping")


def test_both_end_with_the_job(make: Callable[[], Watchers]):
    watchers = make()
    began = time.monotonic()
    watchers.finish()

    assert time.monotonic() - began < 4
    assert [process.returncode for process in watchers._processes.values()] == [0, 0]


def test_run_directory_that_vanished_does_not_hurt_the_job(
    make: Callable[[], Watchers], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    watchers = make()
    shutil.rmtree(tmp_path / "run")
    watchers._processes["agent"].kill()
    watchers._processes["agent"].wait()
    watchers.check()
    assert watchers._processes["agent"].poll() is None


def test_one_that_cannot_be_started_is_said_and_the_job_runs_on(
    make: Callable[[], Watchers], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    monkeypatch.setattr("sys.executable", "/no/such/python")
    watchers = make()
    watchers.check()
    watchers.send("stopping")
    watchers.finish()

    assert watchers.pids() == set()
    said = capsys.readouterr().err
    assert "the agent cannot be started" in said
    assert "the hub cannot be started" in said


def test_mark_is_not_the_jobs_own(make: Callable[[], Watchers]):
    watchers = make()
    assert not set(leftovers.of_run("a mark of the job", set())) & watchers.pids()
