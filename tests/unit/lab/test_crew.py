"""Runs side by side: every task is made once, by processes that have gone at the end."""

from pathlib import Path

import psutil
import pytest

from unstuck.lab.crew import make_abreast
from unstuck.lab.run import Run
from unstuck.lab.runner import Say
from unstuck.lab.scenario import Scenario

TWO_HOSTS = Scenario(name="two", kind="healthy", program=Path("p.py"), causes=(), hosts=2)


@pytest.fixture(autouse=True)
def cannot_make_hosts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the scenario be one that cannot run here: no job is started for it."""
    monkeypatch.setenv("PATH", str(tmp_path))


def test_every_task_is_made_and_no_worker_is_left():
    begun: list[int] = []
    made: list[Run] = []

    def begin(scenario: Scenario, number: int) -> Say:
        assert scenario == TWO_HOSTS
        begun.append(number)
        return lambda text: None

    tasks = [(TWO_HOSTS, number) for number in range(1, 6)]
    make_abreast(iter(tasks), 2, begin, lambda _, run: made.append(run))

    assert begun == [1, 2, 3, 4, 5]
    assert sorted(run.number for run in made) == begun
    assert {run.skipped for run in made} == {"not installed: ip, tc, unshare"}
    children = [child.cmdline() for child in psutil.Process().children()]
    assert not [line for line in children if any("spawn_main" in word for word in line)]
