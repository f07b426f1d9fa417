"""What jobs that have ended left behind is found, and what still runs is left alone."""

import os
import time
from pathlib import Path

from children import Child
from unstuck.model.health import Rating
from unstuck.observe.machine.left_over import files, processes, software
from unstuck.observe.machine.survey import machine


def test_an_old_file_that_nobody_has_mapped_is_a_leftover(tmp_path: Path) -> None:
    left, fresh = tmp_path / "torch_4711_0", tmp_path / "torch_1"
    left.write_bytes(bytes(2048))
    fresh.write_bytes(bytes(2048))
    before = time.time() - 3600
    os.utime(left, (before, before))

    found = files(tmp_path)
    assert found is not None
    assert "1 files of ended jobs" in found.text
    assert str(left) in found.fix
    assert files(tmp_path / "missing") is None


def test_a_rank_with_a_launcher_is_no_leftover(tmp_path: Path) -> None:
    env = {**os.environ, "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "left.invalid"}
    rank = Child(tmp_path, env=env)
    try:
        rank.do("1")
        assert "left.invalid" not in processes().text
    finally:
        rank.end()


def test_versions_are_told_without_importing_torch() -> None:
    assert "torch 2." in software().text
    assert software().rating is Rating.OK


def test_a_survey_of_this_machine_has_every_part() -> None:
    names = {check.name for check in machine(os.environ)}

    assert {"/dev/shm", "memory", "host name", "interfaces", "ports", "versions"} <= names
