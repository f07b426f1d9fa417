"""Sections: names, limits given and learned, and what a wrong use says."""

import contextlib
import queue
import time
from datetime import timedelta
from typing import Any

import pytest

import unstuck
from unstuck.observe.probe.page import PageReader
from unstuck.script import section

SHORT = 0.05
LONG = 20.0
"""A wait that nothing but the deadline ends: no test takes so long."""

pytestmark = pytest.mark.usefixtures("fresh_sections")


def test_section_that_ends_in_time_does_nothing():
    told: list[object] = []
    for _ in range(20):
        with unstuck.section("load", timeout=SHORT, on_timeout=told.append):
            pass
    time.sleep(3 * SHORT)
    assert told == []


def test_limit_is_learned_from_ten_visits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(section, "_FLOOR", 0.02)
    told: queue.Queue[unstuck.SectionTimeout] = queue.Queue()
    for _ in range(10):
        with unstuck.section("save", on_timeout=told.put):
            time.sleep(0.01)
    assert told.empty()
    with unstuck.section("save", on_timeout=told.put):
        error = told.get(timeout=10)
    assert error.learned
    assert error.timeout >= 0.03
    assert "three times as long as ever before" in str(error)


def test_nothing_is_learned_from_what_failed():
    for _ in range(20):
        with contextlib.suppress(KeyError), unstuck.section("save", on_timeout="report"):
            raise KeyError
    with unstuck.section("save", on_timeout="report") as now:
        assert now.deadline == 0.0  # type: ignore[attr-defined]


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), timedelta(seconds=-3)])
def test_timeout_that_is_none(timeout: Any):
    with pytest.raises(ValueError, match="timeout must be above 0 seconds, not"):
        unstuck.section("load", timeout=timeout)
    with pytest.raises(ValueError, match="timeout must be above 0 seconds, not"):
        unstuck.watched([], timeout=timeout)


def test_arguments_of_the_wrong_kind_are_named():
    with pytest.raises(TypeError, match="timeout must be seconds or a timedelta, not 'soon'"):
        unstuck.section("load", timeout="soon")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"on_timeout must be 'report', .* not 'explode'"):
        unstuck.section("load", timeout=1, on_timeout="explode")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="iterable must be something to iterate over, not 7"):
        unstuck.watched(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="section 'load' can decorate a function, not 7"):
        unstuck.section("load")(7)  # type: ignore[type-var]


@pytest.mark.parametrize("timeout", [None, LONG])
def test_section_closed_twice(timeout: float | None):
    one = unstuck.section("load", timeout=timeout)
    with one:
        pass
    with pytest.raises(RuntimeError, match="section 'load' is closed already"):
        one.__exit__(None, None, None)


def test_section_opened_twice_or_never():
    one = unstuck.section("load", timeout=LONG)
    with pytest.raises(RuntimeError, match="section 'load' was never entered"):
        one.__exit__(None, None, None)
    with one, pytest.raises(RuntimeError, match="section 'load' is open already"):
        one.__enter__()
    with one:
        pass


def test_timedelta_is_a_timeout():
    with unstuck.section("load", timeout=timedelta(minutes=1)) as now:
        assert 59 < now.deadline - time.monotonic() <= 60  # type: ignore[attr-defined]


def test_more_names_than_the_page_has_places_for(page: PageReader):
    for n in range(300):
        with unstuck.section(f"step {n}"):
            assert page.read().section == f"step {n}"
        with unstuck.section(f"late {n}", timeout=LONG):
            assert page.read().section == f"late {n}"
    assert page.read().section == ""
