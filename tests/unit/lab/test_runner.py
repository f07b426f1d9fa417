"""One run of a scenario: what is waited for, what is taken from the verdict, what is left."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from unstuck.errors import LabError
from unstuck.lab import runner
from unstuck.lab.interrupts import Interrupts
from unstuck.lab.run import Blamed, Run
from unstuck.lab.scenario import Scenario
from unstuck.lab.world import World
from unstuck.model.verdict import Cause

HANG = Scenario(
    name="hang", kind="hang", program=Path("p.py"), causes=(Cause.BUSY_ELSEWHERE,), limit=0.1
)
HEALTHY = Scenario(name="fine", kind="healthy", program=Path("p.py"), causes=(), limit=0.1)


class Running:
    """Stands for the process of `unstuck run`."""

    def __init__(self, code: int | None) -> None:
        self._code = code

    def poll(self) -> int | None:
        return self._code


@dataclass
class FakeJob:
    """A job of which everything is known beforehand."""

    marked: float | None = None
    said: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    code: int | None = None

    @property
    def process(self) -> Running:
        return Running(self.code)

    def onset(self) -> float | None:
        return self.marked

    def verdicts(self) -> list[dict[str, Any]]:
        return self.said

    def notices(self) -> list[dict[str, Any]]:
        return []

    def wait_exit(self, timeout: float) -> int:
        assert self.code is not None
        return self.code


def verdict(at: float, *ranks: int) -> dict[str, Any]:
    return {
        "made_at": datetime.fromtimestamp(at, UTC).isoformat(),
        "cause": "busy-elsewhere",
        "culprits": [{"rank": rank, "host": "here"} for rank in ranks],
        "alternatives": [{"cause": "straggler"}],
        "summary": "Rank 2 sleeps.",
    }


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "kept"


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Start no keeper, and borrow folders below the test's own."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(runner.keeper, "start", lambda: None)
    yield
    assert [*tmp_path.glob("unstuck-lab-*")] == [], "a borrowed folder was left"


def observe(monkeypatch: pytest.MonkeyPatch, scenario: Scenario, *jobs: FakeJob) -> Run:
    """Make a run of jobs that are only pretended."""

    def start(_: Scenario, folder: Path, resources: ExitStack, end: Any) -> Any:
        assert folder.is_dir()
        return World(folder, jobs)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(runner, "_start", start)
    return runner.observe(scenario, 1, Interrupts(), lambda _: None)


def test_fault_is_timed_from_its_onset_to_the_verdict(monkeypatch: pytest.MonkeyPatch):
    began = time.time()
    run = observe(monkeypatch, HANG, FakeJob(began, [verdict(began + 2.5, 2)]))

    assert (run.cause, run.culprits) == ("busy-elsewhere", (Blamed(2, "here"),))
    assert run.seconds == 2.5
    assert run.proof == "the program wrote its onset down"
    assert (run.alternatives, run.summary) == (("straggler",), "Rank 2 sleeps.")
    assert not run.trouble


def test_first_verdict_of_any_host_counts(monkeypatch: pytest.MonkeyPatch):
    began = time.time()
    jobs = FakeJob(began, [verdict(began + 4, 0)]), FakeJob(None, [verdict(began + 3, 2)])
    run = observe(monkeypatch, HANG, *jobs)
    assert (run.culprits, run.seconds) == ((Blamed(2, "here"),), 3.0)


def test_fault_without_a_verdict_is_a_result(monkeypatch: pytest.MonkeyPatch):
    run = observe(monkeypatch, HANG, FakeJob(time.time()))
    assert (run.cause, run.seconds, run.trouble) == (None, None, "")


def test_fault_without_a_proof_does_not_count(monkeypatch: pytest.MonkeyPatch):
    run = observe(monkeypatch, HANG, FakeJob(None, code=1))
    assert run.trouble == "no proof of the fault within 120 s"


def test_healthy_job_gives_its_exit_code(monkeypatch: pytest.MonkeyPatch):
    run = observe(monkeypatch, HEALTHY, FakeJob(code=0), FakeJob(code=-9))
    assert (run.exit_code, run.cause) == (9, None)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (LabError("no control group\nin two lines"), "no control group"),
        (subprocess.CalledProcessError(1, ["ip", "netns"], stderr="denied\n"), "ip netns: denied"),
    ],
)
def test_trouble_of_the_lab_itself_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
):
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(runner, "_start", fail)
    assert runner.observe(HANG, 1, Interrupts(), lambda _: None).trouble == words


def test_kept_run_gets_a_folder_that_no_earlier_one_has(
    monkeypatch: pytest.MonkeyPatch, kept: Path
):
    (kept / "hang-1").mkdir(parents=True)

    def start(_: Scenario, folder: Path, *rest: object) -> World:
        folder.mkdir()
        return World(folder, (FakeJob(1.0),))  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(runner, "_start", start)
    run = runner.observe(HANG, 1, Interrupts(), lambda _: None, kept)
    assert run.folder == str(kept / "hang-1x")
    assert (kept / "hang-1x").is_dir()
