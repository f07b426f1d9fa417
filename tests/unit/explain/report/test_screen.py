"""Colour is for terminals that show it, and for those who force it."""

import io
import os

import pytest

from unstuck.explain.report.screen import screen


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "get_terminal_size", lambda _fd: os.terminal_size((132, 50)))


def test_file_is_80_wide_and_plain():
    assert screen(io.StringIO(), {}) == (80, False)


def test_terminal_has_its_own_width_and_colour():
    assert screen(Terminal(), {}) == (132, True)


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_terminal_without_colour_keeps_its_width(environ: dict[str, str]):
    assert screen(Terminal(), environ) == (132, False)


def test_pipe_may_be_shown_on_a_terminal_elsewhere():
    assert screen(io.StringIO(), {"FORCE_COLOR": "1", "COLUMNS": "120"}) == (120, True)
    assert screen(io.StringIO(), {"FORCE_COLOR": "1", "COLUMNS": "\u00b2"}) == (80, True)
    assert screen(io.StringIO(), {"COLUMNS": "120"}) == (80, False)


def test_terminal_that_does_not_say_its_size_counts_as_80(monkeypatch: pytest.MonkeyPatch):
    def fail(_fd: int) -> os.terminal_size:
        raise OSError

    monkeypatch.setattr(os, "get_terminal_size", fail)
    assert screen(Terminal(), {}) == (80, True)
