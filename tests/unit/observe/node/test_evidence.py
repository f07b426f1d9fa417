"""Stacks, loops and waits of a rank, taken on request and forgotten when it moves."""

import os
import signal
import time
from pathlib import Path

from children import Child, until
from unstuck.model.neighbour import HostWait
from unstuck.observe.node.process import procfs
from unstuck.observe.node.ranks import RankWatcher


def take_threads(watcher: RankWatcher) -> str:
    watcher.take_stack()
    return watcher.all_threads()


def test_evidence_is_forgotten_when_the_rank_moves(rank: Child, watcher: RankWatcher):
    watcher.look(time.monotonic())
    rank.until_idle()
    watcher.take_stack()
    state = watcher.look(time.monotonic())
    assert state.stack[-1].file == str(rank.script)
    assert state.stack[-1].user
    assert state.stack[-1].text.startswith("for line in sys.stdin")
    assert "most recent call first" in state.threads[0]
    assert state.stack_age is not None

    rank.do("page.step(1)")
    state = watcher.look(time.monotonic())
    assert (state.stack, state.threads, state.stack_age) == ((), (), None)


def test_end_of_an_import_is_progress_of_a_rank_that_has_not_joined(
    rank: Child, watcher: RankWatcher, tmp_path: Path
):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    (tmp_path / "slow_package.py").write_text(f"open({str(gate)!r}).read()")
    rank.do("report(phase='start')")
    rank.do("page.beat(time.monotonic() - 5)")
    rank.do(f"sys.path.insert(0, {str(tmp_path)!r})")
    now = time.monotonic()
    watcher.look(now)
    rank.tell("bool(__import__('slow_package'))")
    until(lambda: take_threads(watcher).count("slow_package.py") == 1)
    assert watcher.look(now + 7).stalled_for == 7.0

    gate.write_text("come")
    rank.answer()
    rank.until_idle()
    watcher.take_stack()
    assert watcher.look(now + 9).stalled_for == 0.0


def test_what_it_waits_for_is_seen_only_once_asked_for(rank: Child, watcher: RankWatcher):
    pid = rank.do("(kid := os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '60'))")
    try:
        assert watcher.look(time.monotonic()).waiting == HostWait()
        rank.tell("os.waitpid(kid, 0)")
        until(lambda: procfs.waits_in(rank.pid) == "do_wait")
        watcher.take_stack()
        waiting = watcher.look(time.monotonic()).waiting
        assert (waiting.kind, [one.pid for one in waiting.by]) == ("child", [pid])
    finally:
        os.kill(pid, signal.SIGKILL)
    rank.answer()
    rank.do("page.step(1)")
    assert watcher.look(time.monotonic()).waiting == HostWait()


def test_stopped_rank_is_not_asked_for_its_stack(rank: Child, watcher: RankWatcher):
    os.kill(rank.pid, signal.SIGSTOP)
    until(lambda: watcher.look(time.monotonic()).process.state == "T")
    began = time.monotonic()
    watcher.take_stack()

    assert time.monotonic() - began < 0.5
    state = watcher.look(time.monotonic())
    assert state.stack_age is not None
    assert state.threads == ()


def test_rank_that_runs_python_code_is_asked_and_never_signalled(rank: Child, watcher: RankWatcher):
    """Its frames change while faulthandler would read them: that has ended ranks."""
    rank.do("threading.Thread(target=beat_for_ever, daemon=True).start()")
    rank.do("faulthandler.unregister(signal.SIGRTMIN + 5)")
    rank.do(
        "signal.signal(signal.SIGRTMIN + 5, lambda *_: open(base + '.signalled', 'w')) and None"
    )
    watcher.look(time.monotonic())
    rank.tell("work(600)")
    for _ in range(10):
        until(lambda: "in work" in take_threads(watcher))
    assert watcher.look(time.monotonic()).stack[0].function == "work"
    assert not watcher.look(time.monotonic()).gil_held
    assert not Path(f"{watcher.base}.signalled").exists()


def test_rank_that_does_not_listen_is_never_signalled(rank: Child, watcher: RankWatcher):
    rank.do("report(stack_signal=0)")
    rank.do("faulthandler.unregister(signal.SIGRTMIN + 5)")
    rank.do("page.beat(time.monotonic() - 5)")
    watcher.take_stack()

    assert watcher.look(time.monotonic()).threads == ()
    assert rank.do("1") == 1


def test_rank_that_became_another_program_is_not_signalled(rank: Child, watcher: RankWatcher):
    rank.tell("os.execvp('sleep', ['sleep', '60'])")
    until(lambda: Path(f"/proc/{rank.pid}/comm").read_text() == "sleep\n")
    watcher.take_stack()

    assert watcher.look(time.monotonic()).threads == ()
    assert rank.process.poll() is None
