"""The count of out-of-memory kills comes from either kind of control group."""

import os
from pathlib import Path

import pytest

from unstuck.observe.node import cgroup
from unstuck.observe.node.cgroup import OomCounter


def test_process_that_is_not_there_has_no_kills():
    assert OomCounter(1 << 22).kills() == 0


def test_only_kills_from_now_on_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    events = tmp_path / "memory.events"
    events.write_text("low 0\nhigh 0\nmax 3\noom 2\noom_kill 2\noom_group_kill 0\n")
    monkeypatch.setattr(cgroup, "_event_files", lambda _: [tmp_path / "missing", events])
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
    told = {"/proc/7/cgroup": line}
    monkeypatch.setattr(cgroup.procfs, "read", told.__getitem__)
    assert [str(path) for path in cgroup._event_files(7)] == ([file] if file else [])
