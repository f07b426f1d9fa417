"""A main thread that is just going to sleep is woken all the same."""

import subprocess
import sys
import textwrap

import pytest

LOSES_THE_FIRST = """
import signal, sys, threading, time
from unstuck.script import wake_main as waking
real, sent = signal.pthread_kill, []
def loses_the_first(thread, number):
    sent.append(number)
    if len(sent) > LOST:
        real(thread, number)
signal.pthread_kill = loses_the_first
"""
"""As if the first ones had come between Python's last look for signals and the call that blocks."""


def run(body: str, lost: int = 1) -> subprocess.CompletedProcess[str]:
    code = f"LOST = {lost}\n" + LOSES_THE_FIRST + textwrap.dedent(body)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_signal_is_sent_until_its_handler_has_run(lost: int):
    done = run(
        """
        class Woken(Exception): pass
        heard = []
        def handle(*_):
            heard.append(1)
            raise Woken
        signal.signal(signal.SIGUSR1, handle)
        threading.Timer(0.1, waking.wake_main, (signal.SIGUSR1, lambda: heard)).start()
        try:
            time.sleep(600)
        except Woken:
            time.sleep(0.2)
            print(len(sent), len(heard))
        """,
        lost,
    )
    assert done.stdout == f"{lost + 1} 1\n", done.stderr


def test_it_does_not_go_on_for_ever():
    done = run(
        """
        waking.PAUSES = (0.01, 0.01, 0.01)
        signal.signal(signal.SIGUSR1, lambda *_: None)
        waking.wake_main(signal.SIGUSR1, lambda: False)
        for thread in threading.enumerate()[1:]:
            thread.join(30)
        print(len(sent), threading.active_count())
        """
    )
    assert done.stdout == "4 1\n", done.stderr


def test_section_that_raises_leaves_a_sleep_whose_signal_was_lost():
    done = run(
        """
        import unstuck
        try:
            with unstuck.section("load", timeout=0.1, on_timeout="raise"):
                time.sleep(600)
        except unstuck.SectionTimeout as error:
            print(error.name)
        """
    )
    assert done.stdout == "load\n", done.stderr
