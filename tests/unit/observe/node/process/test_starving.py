"""Does a rank get the processor: real threads that compete for one core, and saved counters."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unstuck.observe.node.process import cgroup, procfs
from unstuck.observe.node.process.starving import Starving


@pytest.mark.skipif(procfs.thread_delay(os.getpid()) is None, reason="no schedstat here")
def test_thread_without_a_core_is_delayed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("unstuck.observe.node.process.starving._EVERY", 0.1)
    core = min(os.sched_getaffinity(0))
    burn = f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
    burners = [subprocess.Popen([sys.executable, "-c", burn]) for _ in range(3)]
    try:
        starving = Starving(burners[0].pid)
        deadline = time.monotonic() + 20
        while (starving.delayed or 0.0) < 0.3 and time.monotonic() < deadline:
            starving.look(time.monotonic())
            time.sleep(0.05)
        assert starving.delayed is not None
        assert starving.delayed >= 0.3
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def test_sleeping_thread_is_not_delayed():
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        starving = Starving(sleeper.pid)
        starving.look(10.0)
        starving.look(12.0)
        sleeper.kill()
    assert (starving.delayed or 0.0) < 0.05


def test_process_that_is_gone_tells_nothing():
    starving = Starving(1 << 22)
    starving.look(10.0)
    assert (starving.delayed, starving.throttled) == (None, None)


def test_heaviest_limit_on_the_way_up_counts(monkeypatch: pytest.MonkeyPatch):
    told = iter([{"own": 1.0, "above": 5.0}, {"own": 1.2, "above": 6.0}, None])
    monkeypatch.setattr(cgroup, "throttled", lambda _pid: next(told))
    starving = Starving(os.getpid())
    for now in (10.0, 12.0):
        starving.look(now)
    assert starving.throttled == 0.5
    starving.look(14.0)
    assert starving.throttled is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("usage_usec 9\nnr_periods 4\nnr_throttled 2\nthrottled_usec 1500000\n", 1.5),
        ("nr_periods 4\nnr_throttled 2\nthrottled_time 2500000000\n", 2.5),
    ],
)
def test_both_kinds_of_control_groups_count_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, seconds: float
):
    file = tmp_path / "cpu.stat"
    file.write_text(text)
    monkeypatch.setattr(cgroup, "_limit_files", lambda _groups: (f"{tmp_path}/none", str(file)))
    assert cgroup.throttled(1) == {str(file): pytest.approx(seconds)}


def test_group_without_counters_has_no_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "cpu.stat"
    file.write_text("usage_usec 9\nuser_usec 4\n")
    monkeypatch.setattr(cgroup, "_limit_files", lambda _groups: (str(file),))
    assert cgroup.throttled(1) is None


def test_limits_of_all_groups_above_count_but_not_of_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "job" / "rank").mkdir(parents=True)
    monkeypatch.setattr(cgroup, "_MOUNTS", ("/nowhere", str(tmp_path)))
    cgroup._limit_files.cache_clear()
    groups = (("", "/job/rank"), ("memory", "/job"), ("cpu", "/"))
    expected = (f"{tmp_path}/job/rank/cpu.stat", f"{tmp_path}/job/cpu.stat")
    assert cgroup._limit_files(groups) == expected
    assert cgroup._limit_files((("", "/"),)) == ()
    cgroup._limit_files.cache_clear()
