"""Limits are read as they are for this process, and judged."""

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from unstuck.model.health import Rating
from unstuck.observe.machine import permissions
from unstuck.observe.outside import pyspy


@pytest.fixture
def few_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_usual_1024_files_are_too_few_for_a_large_group(few_files: None) -> None:
    found = permissions.open_files()

    assert found.rating is Rating.WARNING
    assert found.text.startswith("1024 for each process")
    assert "ulimit -n" in found.fix


def test_locked_memory_matters_only_where_there_is_infiniband(tmp_path: Path) -> None:
    assert permissions.locked_memory(tmp_path) is None
    (tmp_path / "mlx5_0").mkdir()

    found = permissions.locked_memory(tmp_path)
    assert found is not None
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    assert (found.rating is Rating.OK) == (soft == resource.RLIM_INFINITY)


def test_without_py_spy_stacks_are_doubtful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspy, "program", lambda: "")

    assert "pip install" in permissions.looking_into_ranks().fix


def test_the_clock_and_the_number_of_processes_are_told() -> None:
    assert permissions.clock().name == "clock"
    assert permissions.processes().rating in (Rating.OK, Rating.WARNING)
