"""The count of out-of-memory kills comes from either kind of control group."""

import os
from pathlib import Path

import pytest

from unstuck.observe.node import cgroup


def test_process_that_is_not_there_has_no_kills():
    assert cgroup.oom_kills(1 << 22) == 0


def test_count_is_the_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    events = tmp_path / "memory.events"
    events.write_text("low 0\nhigh 0\nmax 3\noom 2\noom_kill 2\noom_group_kill 0\n")
    monkeypatch.setattr(cgroup, "_event_files", lambda _: [tmp_path / "missing", events])
    assert cgroup.oom_kills(os.getpid()) == 2


def test_kills_by_the_kernel_in_our_own_group_are_a_number():
    assert cgroup.oom_kills(os.getpid()) >= 0


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("0::/job/7", "/sys/fs/cgroup/job/7/memory.events"),
        ("5:cpu,memory:/job/7", "/sys/fs/cgroup/memory/job/7/memory.oom_control"),
        ("1:name=systemd:/a:b", ""),
    ],
)
def test_both_kinds_of_control_groups_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, file: str
):
    told = tmp_path / "cgroup"
    told.write_text(line + "\n")
    real = Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda self: real(told if str(self) == "/proc/7/cgroup" else self)
    )
    assert [str(path) for path in cgroup._event_files(7)] == ([file] if file else [])
