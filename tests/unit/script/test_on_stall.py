"""A rank that hears of a stall calls its hooks in the main thread, then raises StallError."""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

import unstuck
from unstuck.script import on_stall

PRELUDE = """
import json, os, socket, sys, threading, time
live = os.environ["UNSTUCK_LIVE_DIR"]
server = socket.socket(socket.AF_UNIX)
server.bind(os.path.join(live, "agent.sock"))
server.listen()
subscribed = threading.Event()
def serve():
    connection, _ = server.accept()
    connection.recv(4096)
    connection.sendall(b'{"subscribed": "orders"}\\n')
    serve.connection = connection
    subscribed.set()
threading.Thread(target=serve, daemon=True).start()
def order(number, what, pid=None, **more):
    verdict = json.dumps({"verdict": {"cause": "process-stopped"}})
    told = {"order": what, "number": number, "pid": pid or os.getpid(),
            "summary": "rank 2 is stopped", "verdict": verdict, "seconds": 5.0, **more}
    serve.connection.sendall(json.dumps(told).encode() + b"\\n")
import unstuck
from unstuck.script import on_stall as stall
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def go(body: str, **env: str) -> subprocess.CompletedProcess[str]:
        known = {"UNSTUCK_LIVE_DIR": str(tmp_path), "UNSTUCK_PROBED": "0", "UNSTUCK_OBEY": "1"}
        return subprocess.run(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(body)],
            env={**os.environ, **known, **env},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return go


def test_stall_error_leaves_a_sleep_at_once(run: Run):
    done = run("""
        stall.attach()
        subscribed.wait(10)
        try:
            order(1, "raise")
            time.sleep(600)
        except unstuck.StallError as error:
            print(error, error.verdict["cause"], isinstance(error, RuntimeError))
    """)
    assert done.stdout == "rank 2 is stopped process-stopped True\n", done.stderr


def test_hooks_run_in_the_main_thread_and_the_rank_waits_for_the_others(run: Run):
    done = run("""
        @unstuck.on_stall(timeout=7)
        def save(error):
            print("saving", threading.current_thread() is threading.main_thread())
            print(json.dumps(stall.report()))
            threading.Timer(0.3, order, (2, "raise")).start()
        subscribed.wait(10)
        print(json.dumps(stall.report()))
        try:
            order(1, "hook")
            time.sleep(600)
        except unstuck.StallError:
            print(json.dumps(stall.report()))
    """)
    lines = done.stdout.splitlines()
    assert lines[1] == "saving True", done.stderr
    told = [json.loads(line) for line in (lines[0], *lines[2:])]
    assert [one["hook"] for one in told] == ["ready", "running", "done"]
    assert told[0]["hook_seconds"] == 7.0


def test_hook_that_fails_is_noted_and_the_next_one_runs(run: Run):
    done = run("""
        @unstuck.on_stall
        def bad(error): raise ValueError("disk full")
        @unstuck.on_stall
        def good(error):
            print("good")
            threading.Timer(0.1, order, (2, "raise")).start()
        subscribed.wait(10)
        try:
            order(1, "hook")
            time.sleep(600)
        except unstuck.StallError:
            print(stall.report()["hook"])
    """)
    assert done.stdout == "good\nfailed\n", done.stderr
    assert "on_stall hook failed: ValueError: disk full" in done.stderr


def test_order_for_another_process_is_not_heard(run: Run):
    done = run("""
        stall.attach()
        subscribed.wait(10)
        order(1, "raise", pid=1)
        time.sleep(0.1)
        print("alive")
    """)
    assert done.stdout == "alive\n", done.stderr


def test_without_a_policy_that_acts_nothing_listens(run: Run):
    done = run(
        """
        @unstuck.on_stall
        def save(error): print("never")
        print(subscribed.wait(0.1), stall.report())
        """,
        UNSTUCK_OBEY="0",
    )
    assert done.stdout == "False {}\n", done.stderr


def test_outside_of_a_watched_job_it_is_an_ordinary_function(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("UNSTUCK_PROBED", raising=False)
    monkeypatch.setattr(on_stall._state, "hooks", [])

    @unstuck.on_stall
    def save(error: unstuck.StallError) -> str:
        return f"saved because {error}"

    assert save(unstuck.StallError("of rank 2")) == "saved because of rank 2"
    assert on_stall.report() == {}
    with pytest.raises(ValueError, match="below 0"):
        unstuck.on_stall(timeout=-1.0)


def test_order_whose_signal_came_too_early_to_wake_anybody_is_heard(run: Run):
    done = run("""
        import signal
        real, sent = signal.pthread_kill, []
        def loses_the_first(*args):
            sent.append(args)
            if len(sent) > 1:
                real(*args)
        signal.pthread_kill = loses_the_first
        stall.attach()
        subscribed.wait(10)
        try:
            order(1, "raise")
            time.sleep(600)
        except unstuck.StallError as error:
            time.sleep(0.2)
            print(error, len(sent))
    """)
    assert done.stdout == "rank 2 is stopped 2\n", done.stderr
