"""Ctrl-C ends the work of the moment, but not in the middle of what must be whole."""

import os
import signal

import pytest

from unstuck.lab.interrupts import Interrupts


def test_ctrl_c_is_an_exception_at_once():
    with pytest.raises(KeyboardInterrupt), Interrupts():
        os.kill(os.getpid(), signal.SIGINT)


def test_what_must_be_whole_is_finished_first():
    done: list[str] = []

    def make(interrupts: Interrupts) -> None:
        with interrupts.held():
            with interrupts.held():
                os.kill(os.getpid(), signal.SIGINT)
                done.append("inner")
            done.append("outer")
        done.append("never")

    with pytest.raises(KeyboardInterrupt), Interrupts() as interrupts:
        make(interrupts)

    assert done == ["inner", "outer"]


def test_sigterm_gives_the_exit_code_of_a_shell():
    with pytest.raises(SystemExit) as caught, Interrupts():
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.code == 143


def test_the_handlers_of_before_are_back_afterwards():
    before = signal.getsignal(signal.SIGTERM)
    with Interrupts():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
