"""A frozen process is known by its control group, of either kind."""

import os
from pathlib import Path

import pytest

from unstuck.observe.node.freezer import frozen


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
def test_either_kind_is_read(
    monkeypatch: pytest.MonkeyPatch, line: str, file: str, content: str, expected: bool
):
    files = {"/proc/7/cgroup": line + "\n", file: content}

    def read_text(path: Path) -> str:
        if str(path) not in files:
            raise FileNotFoundError(path)
        return files[str(path)]

    monkeypatch.setattr(Path, "read_text", read_text)
    assert frozen(7) == expected
