"""What is done when the deadline of a section passes."""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import unstuck
from children import until
from unstuck.observe.probe.page import PageReader
from unstuck.script import section
from unstuck.script.deadlines import watcher

SHORT = 0.05
LONG = 20.0
"""A wait that nothing but the deadline ends: no test takes so long."""

pytestmark = pytest.mark.usefixtures("fresh_sections")


def test_callable_is_called_in_a_helper_thread():
    told: queue.Queue[tuple[unstuck.SectionTimeout, str]] = queue.Queue()

    def note(error: unstuck.SectionTimeout) -> None:
        told.put((error, threading.current_thread().name))

    with unstuck.section("load batch", timeout=SHORT, on_timeout=note):
        error, thread = told.get(timeout=10)
        assert told.empty()
    assert (error.name, error.timeout, thread) == ("load batch", SHORT, "unstuck on_timeout")
    assert SHORT <= error.seconds < 5
    assert error.function == "test_callable_is_called_in_a_helper_thread"


def test_report_names_section_limit_and_line(capfd: pytest.CaptureFixture[str]):
    with unstuck.section("load batch", timeout=SHORT):
        said = until(lambda: capfd.readouterr().err)
    assert said.startswith("unstuck: section 'load batch' has taken 0.05 s, its timeout, and is at")
    assert said.count("\n") == 1


def test_dump_shows_all_threads(capfd: pytest.CaptureFixture[str]):
    go = threading.Event()
    other = threading.Thread(target=go.wait, name="other")
    other.start()
    said = ""
    with unstuck.section("load batch", timeout=SHORT, on_timeout="dump"):
        deadline = time.monotonic() + 10
        while said.count("Thread 0x") < 2 and time.monotonic() < deadline:
            said += capfd.readouterr().err
            time.sleep(0.01)
    go.set()
    other.join()
    assert "section 'load batch'" in said
    assert said.count("Thread 0x") >= 2


def test_abort_ends_the_process(tmp_path: Path):
    # The sleep is what the abort must cut short: the test fails if it is waited for.
    script = tmp_path / "script.py"
    script.write_text(
        "import time, unstuck\n"
        "with unstuck.section('save', timeout=0.1, on_timeout='abort'):\n"
        "    time.sleep(60)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == -6
    assert "section 'save' has taken 0.1 s, its timeout, and is at script.py:3" in done.stderr
    assert "Thread 0x" in done.stderr


def test_one_watcher_thread_serves_all():
    with contextlib.ExitStack() as stack:
        for n in range(100):
            stack.enter_context(unstuck.section(f"s{n}", timeout=LONG))
        ours = [t for t in threading.enumerate() if t.name == "unstuck deadlines"]
        assert len(ours) == 1


def test_fork_has_its_own_limits_and_leaves_its_parents_page_alone(page: PageReader):
    with unstuck.section("parent", timeout=LONG, on_timeout="raise"):
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                try:
                    with unstuck.section("child", timeout=SHORT, on_timeout="raise"):
                        time.sleep(LONG)
                except unstuck.SectionTimeout:
                    os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        seen = page.read()
        assert (seen.section, [one.name for one in seen.deadlines]) == ("parent", ["parent"])
    assert page.read().deadlines == ()


def test_end_of_the_interpreter_in_the_middle(tmp_path: Path):
    # The thread still sleeps when the interpreter ends; nobody waits for it.
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, threading, time, unstuck\n"
        "def work():\n"
        "    with unstuck.section('background', timeout=60, on_timeout='raise'):\n"
        "        time.sleep(60)\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "unstuck.section('open', timeout=0.05).__enter__()\n"
        "time.sleep(0.2)\n"
        "sys.exit(7)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 7
    assert done.stderr.count("\n") == 1, done.stderr


@pytest.mark.timeout(30)
def test_signal_that_comes_while_the_watcher_is_woken_locks_nothing_up():
    """What the handler does must be possible between any two steps of what it interrupts."""
    one, main = section.Timed("late", LONG, "raise"), threading.get_ident()
    before = signal.signal(signal.SIGUSR1, lambda *_: watcher.retry(one, 0.0))
    over = threading.Event()

    def storm() -> None:
        while not over.is_set():
            signal.pthread_kill(main, signal.SIGUSR1)

    thread = threading.Thread(target=storm)
    thread.start()
    try:
        for _ in range(20_000):
            watcher.hurry()
    finally:
        over.set()
        thread.join()
        signal.signal(signal.SIGUSR1, before)
