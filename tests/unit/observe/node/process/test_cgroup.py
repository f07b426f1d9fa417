"""Out-of-memory kills and the freezer, from either version of control groups."""

import os
from pathlib import Path

import pytest

from unstuck.observe.node.process import cgroup
from unstuck.observe.node.process.cgroup import OomCounter, frozen


def test_process_that_is_not_there_has_no_kills():
    assert OomCounter(1 << 22).kills() == 0


def test_only_kills_from_now_on_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    events = tmp_path / "memory.events"
    events.write_text("low 0\nhigh 0\nmax 3\noom 2\noom_kill 2\noom_group_kill 0\n")
    monkeypatch.setattr(cgroup, "_event_files", lambda _: [f"{tmp_path}/missing", str(events)])
    counter = OomCounter(os.getpid())
    assert counter.kills() == 0

    events.write_text("low 0\nhigh 0\nmax 3\noom 4\noom_kill 3\noom_group_kill 0\n")
    assert counter.kills() == 1


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("0::/job/7", "/sys/fs/cgroup/job/7/memory.events"),
        ("5:cpu,memory:/job/7", "/sys/fs/cgroup/memory/job/7/memory.oom_control"),
        ("1:name=systemd:/a:b", ""),
    ],
)
def test_both_kinds_of_control_groups_are_found(
    monkeypatch: pytest.MonkeyPatch, line: str, file: str
):
    files = {"/proc/7/cgroup": line}
    monkeypatch.setattr(cgroup.procfs, "read", files.__getitem__)
    assert cgroup._event_files(7) == ([file] if file else [])


def test_a_process_that_runs_or_is_gone_is_not_frozen():
    assert not frozen(os.getpid())
    assert not frozen(1 << 22)


@pytest.mark.parametrize(
    ("line", "file", "content", "expected"),
    [
        ("0::/job", "/sys/fs/cgroup/job/cgroup.events", "populated 1\nfrozen 1\n", True),
        ("0::/job", "/sys/fs/cgroup/job/cgroup.events", "populated 1\nfrozen 0\n", False),
        ("0::/job", "/sys/fs/cgroup/unified/job/cgroup.events", "frozen 1\n", True),
        ("6:freezer:/job", "/sys/fs/cgroup/freezer/job/freezer.state", "FROZEN\n", True),
        ("6:freezer:/job", "/sys/fs/cgroup/freezer/job/freezer.state", "THAWED\n", False),
        ("6:cpu:/job", "/sys/fs/cgroup/freezer/job/freezer.state", "FROZEN\n", False),
    ],
)
def test_a_frozen_process_is_known_by_its_control_group(
    monkeypatch: pytest.MonkeyPatch, line: str, file: str, content: str, expected: bool
):
    files = {"/proc/7/cgroup": line + "\n", file: content}

    monkeypatch.setattr(cgroup.procfs, "read", lambda path: files.get(path, ""))
    assert frozen(7) == expected
