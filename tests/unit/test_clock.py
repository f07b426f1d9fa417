"""Nothing in the agents, the hub or the recovery reads the time but through the clock."""

import re
import time
from pathlib import Path

import pytest

import unstuck
from clocks import FakeClock
from unstuck.clock import SYSTEM

PACKAGE = Path(unstuck.__file__).parent


@pytest.mark.parametrize("room", ["collect", "act"])
def test_time_is_read_through_the_clock_only(room: str):
    uses = [
        str(path)
        for path in (PACKAGE / room).rglob("*.py")
        if re.search(r"^(import|from) time\b", path.read_text(), re.MULTILINE)
    ]
    assert uses == []


def test_system_clock_is_the_machines():
    assert abs(SYSTEM.monotonic() - time.monotonic()) < 1
    assert abs(SYSTEM.time() - time.time()) < 1


def test_clock_of_the_tests_skips_instead_of_sleeping():
    clock = FakeClock()
    before = clock.monotonic(), clock.time()
    clock.sleep(100)
    assert clock.monotonic() - before[0] == pytest.approx(100, abs=1)
    assert clock.time() - before[1] == pytest.approx(100, abs=1)
