"""The probe in two real ranks: what stands on the page, and who has one."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from children import RANK, child, rank_env, until
from pairs import Pair
from unstuck.observe.node import recorder
from unstuck.observe.node.evidence import STALE
from unstuck.observe.node.process import procfs
from unstuck.observe.node.ranks import RankWatcher
from unstuck.observe.probe.page import PageReader
from unstuck.script.start import STACK_SIGNAL

FORK = """
def fork_and_freeze(marker, go):
    import pathlib
    pid = os.fork()
    if pid == 0:
        beat = sys.modules["unstuck.script.start"]._probe.beat
        beat.phase = "of the fork"
        unstuck.step(99)
        with unstuck.section("of the fork"):
            beat.look()
            pathlib.Path(marker).touch()
            while not pathlib.Path(go).exists():
                time.sleep(0.01)
        os._exit(0)
    ctypes.PyDLL(None).waitpid(pid, None, 0)  # keeps the GIL: our own thread writes nothing
"""

LAST_OF_ALL = """
import atexit, json, threading
atexit.register(
    lambda: print("= " + json.dumps([t.name for t in threading.enumerate()]), flush=True)
)
"""
"""Registered before the probe, so it runs after the probe's own last word."""


def test_page_says_who_the_rank_is(pair: Pair):
    report = pair.page(1).report

    assert (report["rank"], report["world_size"], report["local_rank"]) == (1, 2, 1)
    assert report["pid"] == pair.ranks[1].pid
    assert report["attempt"].startswith("127.0.0.1:")
    assert report["attempt"].endswith("/0")
    assert (report["problem"], report["server"], report["failure"]) == ("", True, None)


def test_phase_goes_from_start_to_run(pair: Pair):
    assert pair.phase_before == "start"
    until(lambda: pair.page(0).report["phase"] == "run")


def test_script_is_where_the_page_says(pair: Pair):
    pair.settle()
    *_, (file, line, function, user) = pair.page(0).report["frames"]

    assert (file, function, user) == (str(pair.ranks[0].script), "<module>", True)
    assert "sys.stdin" in pair.ranks[0].script.read_text().splitlines()[line - 1]


def test_beat_goes_on(pair: Pair):
    before = pair.page(0).beat
    until(lambda: pair.page(0).beat > before + 2)


def test_steps_of_optimizers_count_by_themselves(pair: Pair):
    before = pair.page(0).step
    pair.ranks[0].do("w = torch.nn.Parameter(torch.ones(2))")
    pair.ranks[0].do("w.grad = torch.ones(2)")
    pair.ranks[0].do("torch.optim.SGD([w], lr=0.1).step()")
    assert pair.page(0).step == before + 1


def test_sections_of_the_script_are_on_the_page(pair: Pair):
    pair.ranks[1].do("now = unstuck.section('load', timeout=30)")
    pair.ranks[1].do("now.__enter__() and None")
    page = pair.page(1)
    pair.ranks[1].do("now.__exit__(None, None, None)")

    assert page.section == "load"
    assert time.monotonic() < page.section_deadline < time.monotonic() + 31
    assert pair.page(1).section == ""


def test_subprocess_and_loader_workers_claim_no_page(pair: Pair):
    code = "import torch.distributed as d; d.is_available()"
    pair.ranks[0].do(f"__import__('subprocess').run([sys.executable, '-c', {code!r}], check=True)")
    loader = "torch.utils.data.DataLoader(range(4), num_workers=1, timeout=60)"
    assert pair.ranks[0].do(f"[int(x) for x in {loader}]") == [0, 1, 2, 3]

    assert {path.name for path in pair.live.glob("*.page")} == {
        pair.file(0).name,
        pair.file(1).name,
    }
    assert list(pair.live.glob("*.problem")) == []


def test_fork_does_not_write_to_the_page_of_its_parent(pair: Pair, tmp_path: Path):
    marker, go = tmp_path / "marker", tmp_path / "go"
    pair.ranks[0].do(f"exec({FORK!r}, globals())")
    pair.settle()
    before = pair.page(0)
    pair.ranks[0].tell(f"fork_and_freeze({str(marker)!r}, {str(go)!r})")
    try:
        until(marker.exists)
        page = pair.page(0)
        assert (page.step, page.section, page.report["phase"]) == (before.step, "", "run")
    finally:
        go.touch()
        pair.ranks[0].answer()


def test_recorder_answers_over_the_socket(pair: Pair):
    pair.both("dist.all_reduce(torch.ones(4)) and None")
    socket = str(pair.file(0, "sock"))

    assert recorder.answers(socket)
    assert recorder.read(socket)["entries"][-1]["profiling_name"] == "gloo:all_reduce"
    with pytest.raises(OSError, match="no_such_handler"):
        recorder.ask(socket, "no_such_handler")


def test_one_that_holds_the_gil_is_seen_through(pair: Pair):
    pair.settle()
    watcher = RankWatcher(pair.file(1), "here", time.monotonic())
    pair.ranks[1].tell("ctypes.PyDLL(None).sleep(60)")
    try:
        until(lambda: watcher.look(time.monotonic()).beat_age > STALE)
        watcher.read_recorder()
        watcher.take_stack()
        state = watcher.look(time.monotonic())
        assert state.gil_held
        assert state.recorder_age is not None
        assert state.stack[-1].file == str(pair.ranks[1].script)
    finally:
        pair.ranks[1].answer()

    pair.ranks[1].do("unstuck.step(1)")
    state = watcher.look(time.monotonic())
    assert (state.gil_held, state.recorder_age, state.threads) == (False, None, ())
    watcher.close(remove=False)


def test_nothing_is_said_on_stderr(pair: Pair):
    assert [rank.said() for rank in pair.ranks] == ["", ""]


def test_rank_that_says_so_only_later_is_watched_from_then_on(tmp_path: Path):
    env = rank_env(tmp_path)
    del env["RANK"]
    with child(tmp_path / "child", RANK, env) as rank:
        rank.do("1")
        assert list(tmp_path.glob("*.page")) == []
        rank.do(f"store = dist.FileStore({str(tmp_path / 'store')!r}, 1)")
        rank.do("dist.init_process_group('gloo', store=store, rank=0, world_size=1)")
        page = PageReader(str(tmp_path / f"rank-0.{rank.pid}.page"))
        until(lambda: page.read().report.get("phase") == "run")
        rank.do("dist.destroy_process_group()")
        rank.tell("raise ValueError('caf\\udce9 ' + 'x' * 5000)")
        assert rank.process.wait(60) == 1
        report = page.read().report

    assert report["phase"] == "exception"
    assert report["failure"]["type"] == "ValueError"
    assert report["failure"]["message"].startswith("caf? xxx")
    assert len(report["failure"]["message"]) == 2000
    assert report["failure"]["at"][0] == str(rank.script)
    assert rank.said().startswith("[rank0]: Traceback")
    assert "observe/probe" not in rank.said()
    page.close()


def test_orderly_end(tmp_path: Path):
    with child(tmp_path / "child", LAST_OF_ALL + RANK, rank_env(tmp_path)) as rank:
        assert "unstuck" in rank.do("[thread.name for thread in threading.enumerate()]")
        page = PageReader(str(tmp_path / f"rank-0.{rank.pid}.page"))
        rank.tell("sys.exit(0)")
        threads = rank.answer()
        assert rank.process.wait(60) == 0
        report = page.read().report
        page.close()

    assert (report["phase"], report["failure"]) == ("exit", None)
    assert "MainThread" in threads
    assert "unstuck" not in threads
    assert rank.said() == ""


def test_question_that_comes_while_the_interpreter_ends_kills_nobody(tmp_path: Path):
    with child(tmp_path / "child", RANK, rank_env(tmp_path)) as rank:
        # The C library calls this last of all, when the interpreter and its handlers are gone.
        rank.do("ctypes.CDLL(None).on_exit(ctypes.CDLL(None).pause, None)")
        assert procfs.catches(rank.pid, STACK_SIGNAL)
        rank.tell("sys.exit(0)")
        until(lambda: not procfs.catches(rank.pid, STACK_SIGNAL))
        os.kill(rank.pid, STACK_SIGNAL)
        os.kill(rank.pid, signal.SIGTERM)

        assert rank.process.wait(60) == -signal.SIGTERM


@pytest.mark.parametrize(
    ("env", "attempt"),
    [
        ({"MASTER_ADDR": "n0", "MASTER_PORT": "7", "TORCHELASTIC_RESTART_COUNT": "2"}, "n0:7/2"),
        ({"MASTER_ADDR": "n0", "MASTER_PORT": "7", "TORCHELASTIC_RESTART_COUNT": "2",
          "GROUP_WORLD_SIZE": "2"}, "n0:7"),
        ({}, ":/0"),
    ],
)  # fmt: skip
def test_attempt_has_one_name_on_all_nodes(env: dict[str, str], attempt: str):
    code = (
        "import json; from unstuck.script import start;"
        "print(json.dumps(start._about(0, 1)['attempt']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=_plain() | env, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == attempt


def _plain() -> dict[str, str]:
    gone = ("MASTER_", "TORCHELASTIC_", "GROUP_", "UNSTUCK_")
    return {key: value for key, value in os.environ.items() if not key.startswith(gone)}
