"""What a host lacks, from its own files: real ones, saved ones, and none at all."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from children import until
from unstuck.model.host import OtherProcess, Pressure
from unstuck.model.rank import Process
from unstuck.observe.node.process import pressure as module
from unstuck.observe.node.process import procfs
from unstuck.observe.node.process.pressure import Neighbours, PressureMeter

ME = Process(os.getpid())


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made /proc of a host without any pressure."""
    monkeypatch.setattr(module, "pressure_folder", lambda _pid: None)
    (tmp_path / "pressure").mkdir()
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "schedstat").write_text("1 2 3\n")
    for kind in ("cpu", "io", "memory"):
        psi(tmp_path, kind, 0)
    stat(tmp_path, 0, 0)
    return tmp_path


def psi(root: Path, kind: str, microseconds: int) -> None:
    line = f"avg10=1.13 avg60=1.37 avg300=23.28 total={microseconds}\n"
    (root / "pressure" / kind).write_text(f"some {line}full {line.replace('total=', 'total=9')}")


def stat(root: Path, used: int, stolen: int) -> None:
    (root / "stat").write_text(f"cpu  {used} 0 0 0 0 0 0 {stolen} 0 0\ncpu0 1 1 1 1 1 1 1 1\n")


def process(root: Path, pid: int, name: str, ticks: int, parent: int = 1) -> None:
    (root / str(pid)).mkdir(exist_ok=True)
    rest = (
        f"S {parent} 1 1 0 -1 4194560 1 0 0 0 {ticks} 0 0 0 20 0 1 0 77 1000 10"
        + " 0" * 14
        + " 3 0"
    )
    (root / str(pid) / "stat").write_text(f"{pid} ({name}) {rest}\n")


def test_growth_of_the_totals_is_the_share(proc: Path):
    meter = PressureMeter(str(proc), 1)
    meter.look(10.0, [ME])
    for kind, total in (("cpu", 1_000_000), ("io", 500_000), ("memory", 20_000)):
        psi(proc, kind, total)
    ticks = procfs.TICKS * (os.cpu_count() or 1)
    stat(proc, int(ticks * 1.5), ticks // 2)
    found = meter.look(12.0, [Process(1, throttled=0.3), Process(2, throttled=0.1)])

    assert (found.cpu, found.io, found.memory) == (0.5, 0.25, 0.01)
    assert found.steal == pytest.approx(0.25, abs=0.01)
    assert (found.throttled, found.unseen) == (0.3, ())


def test_it_looks_once_a_second(proc: Path):
    meter = PressureMeter(str(proc), 1)
    meter.look(10.0, [ME])
    psi(proc, "cpu", 900_000)
    assert meter.look(10.5, [ME]).cpu == 0.0
    assert meter.look(11.0, [ME]).cpu == 0.9


def test_own_control_group_tells_before_the_host(proc: Path, monkeypatch: pytest.MonkeyPatch):
    group = proc / "group"
    group.mkdir()
    monkeypatch.setattr(module, "pressure_folder", lambda _pid: str(group))
    for kind in ("cpu", "io", "memory"):
        (group / f"{kind}.pressure").write_text("some avg10=0 avg60=0 avg300=0 total=0\n")
    meter = PressureMeter(str(proc), 1)
    meter.look(10.0, [ME])
    psi(proc, "cpu", 2_000_000)
    (group / "io.pressure").write_text("some avg10=0 avg60=0 avg300=0 total=1000000\n")
    found = meter.look(12.0, [ME])
    assert (found.cpu, found.io) == (0.0, 0.5)


def test_missing_sources_are_said_and_hurt_nothing(tmp_path: Path):
    meter = PressureMeter(str(tmp_path), 1)
    expected = Pressure(unseen=("pressure", "steal", "delays"))
    assert meter.look(10.0, []) == meter.look(12.0, []) == expected


def test_broken_sources_are_as_good_as_missing(proc: Path):
    for name in ("pressure/cpu", "stat"):
        (proc / name).write_text("nonsense\n")
    assert PressureMeter(str(proc), 1).look(10.0, []).unseen == ("pressure", "steal")


def test_real_host_tells_shares():
    meter = PressureMeter()
    meter.look(time.monotonic(), [ME])
    found = meter.look(time.monotonic() + 2, [ME])
    shares = (found.cpu, found.io, found.memory, found.throttled, found.steal)
    assert all(0 <= share <= 1 for share in shares)


def test_neighbours_are_asked_under_pressure_only(proc: Path):
    process(proc, 50, "hog", 0)
    meter = PressureMeter(str(proc), 40)
    for second in range(10, 20):
        process(proc, 50, "hog", second * procfs.TICKS)
        assert meter.look(float(second), [ME]).others == ()
    found: list[Pressure] = []
    for second in range(20, 26):
        process(proc, 50, "hog", second * procfs.TICKS)
        found.append(meter.look(float(second), [Process(os.getpid(), delayed=0.5)]))
    assert found[-1].others == (OtherProcess(50, "hog", 1.0, 3),)


def test_job_and_all_that_descends_from_it_are_no_neighbours(proc: Path):
    tree = {40: ("unstuck", 1), 41: ("torchrun", 40), 42: ("rank", 41), 43: ("loader", 42)}
    tree |= {60: ("other rank", 1), 61: ("its (loader)", 60), 70: ("shell", 1), 71: ("hog", 70)}
    neighbours = Neighbours(str(proc), launcher=40)
    for moment in (0, 3):
        for pid, (name, parent) in tree.items():
            process(proc, pid, name, moment * procfs.TICKS * (1 if pid < 70 else 2), parent)
        found = neighbours.look(10.0 + moment, {60})
    assert found == (OtherProcess(70, "shell", 2.0, 3), OtherProcess(71, "hog", 2.0, 3))


def test_reused_pid_is_a_new_process(proc: Path):
    neighbours = Neighbours(str(proc), 40)
    process(proc, 50, "old", 100 * procfs.TICKS)
    neighbours.look(10.0, ())
    process(proc, 50, "new", 3 * procfs.TICKS)
    stat_file = proc / "50" / "stat"
    stat_file.write_text(stat_file.read_text().replace(" 77 ", " 78 "))
    assert neighbours.look(13.0, ()) == (OtherProcess(50, "new", 1.0, 3),)


def test_process_that_came_since_the_last_look_is_named(proc: Path):
    neighbours = Neighbours(str(proc), 40)
    process(proc, 50, "old", 100 * procfs.TICKS)
    assert neighbours.look(10.0, ()) == ()
    process(proc, 51, "new", 2 * procfs.TICKS)
    assert neighbours.look(14.0, ()) == (OtherProcess(51, "new", 0.5, 3),)


def test_who_keeps_a_disk_busy_is_named_though_it_needs_no_core(proc: Path):
    neighbours = Neighbours(str(proc), 40)
    for moment in (0, 3):
        for pid, parent, rate in ((50, 1, 80e6), (51, 1, 5e4), (52, 2, 90e6), (53, 1, 30e6)):
            process(proc, pid, f"writer {pid}", 0, parent)
            written = f"rchar: 9\nread_bytes: 0\nwrite_bytes: {int(rate * moment)}\n"
            (proc / str(pid) / "io").write_text(written)
        found = neighbours.look(10.0 + moment, ())
    # 51 writes next to nothing, 52 is a thread of the kernel, which writes for others.
    assert [(one.pid, one.disk) for one in found] == [(50, 80_000_000), (53, 30_000_000)]


def test_writers_and_hogs_share_the_places(proc: Path):
    neighbours = Neighbours(str(proc), 40)
    for moment in (0, 3):
        for pid in range(50, 70):
            hogs = pid < 60
            process(proc, pid, "busy", moment * procfs.TICKS if hogs else 0, 1)
            written = 0 if hogs else moment * 10**8
            (proc / str(pid) / "io").write_text(f"write_bytes: {written}\n")
        found = neighbours.look(10.0 + moment, ())
    assert [one.pid for one in found] == [50, 51, 52, 53, 60, 61, 62, 63]


@pytest.fixture
def hog() -> Iterator[int]:
    script = "while True: pass"
    with subprocess.Popen([sys.executable, "-c", script], start_new_session=True) as started:
        yield started.pid
        started.kill()


def test_real_neighbour_is_found_with_what_it_runs(hog: int):
    # Everything but the hog counts as the job: on a loaded machine others use more than it does.
    neighbours = Neighbours("/proc", launcher=1 << 22)
    neighbours._job = lambda seen, ranks: set(seen) - {hog}  # type: ignore[method-assign]

    def used() -> int:
        found = procfs.stat(hog)
        return found.ticks if found else 0

    assert neighbours.look(0.0, ()) == ()
    before = used()
    until(lambda: used() - before > 0.2 * procfs.TICKS)
    neighbours._rest = 0.0
    (found,) = [one for one in neighbours.look(3.0, ()) if one.pid == hog]
    assert found.cpu >= Neighbours.LEAST
    assert found.name.startswith("python")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (["/usr/bin/python3", "-u", "/home/me/train.py", "--lr", "1"], "python3 train.py"),
        (["python", "-c", "while True: pass"], "python -c"),
        (["python", "-m", "http.server"], "python http.server"),
        (["/usr/bin/dd", "if=/dev/zero"], "dd"),
        (["python"], "python"),
        ([], ""),
    ],
)
def test_neighbour_is_named_by_what_it_runs(tmp_path: Path, line: list[str], name: str):
    (tmp_path / "cmdline").write_text("".join(f"{word}\0" for word in line))
    assert procfs.command(str(tmp_path / "cmdline")) == name
