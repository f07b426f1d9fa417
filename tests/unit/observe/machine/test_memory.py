"""Shared memory that is too small is said to be, with what to do about it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from unstuck.model.health import Rating
from unstuck.observe.machine.memory import amount, main_memory, shared_memory

LOOK = """
from unstuck.observe.machine.memory import shared_memory
found = shared_memory()
print(found.rating, found.text)
"""


def test_a_folder_that_is_not_there_is_bad(tmp_path: Path) -> None:
    found = shared_memory(tmp_path / "missing")

    assert found.rating is Rating.BAD
    assert "--shm-size" in found.fix


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
def test_the_64_mb_of_a_container_are_too_few() -> None:
    mounted = f'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec {sys.executable} -c "$0"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mounted, LOOK],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.startswith("bad 64 MiB, 64 MiB free: DataLoader workers die"), done.stderr


def test_memory_is_told_with_its_unit() -> None:
    assert "available" in main_memory().text
    assert [amount(n) for n in (12, 64 << 20, 3 << 29, 5 << 40)] == [
        "12 B",
        "64 MiB",
        "1.5 GiB",
        "5.0 TiB",
    ]
