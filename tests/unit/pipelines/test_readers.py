"""Whoever only looks costs nothing worth mentioning, and gets what is true at this moment."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from clocks import FakeClock
from scenes import job, one_sleeps, verdict_of
from unstuck.act.news import Incidents
from unstuck.collect import bundle
from unstuck.model.requests import EvidenceKind, EvidenceRequest
from unstuck.pipelines import job_status
from unstuck.pipelines.readers import MOST_STACKS, Readers


class Desk:
    """Readers of one job, with a clock that the test turns."""

    def __init__(self, run: Path) -> None:
        self.clock = FakeClock()
        self.incidents = Incidents()
        self.readers = Readers(run, ["train"], self.incidents, self.clock)

    def ask(self, what: str, **more: Any) -> dict[str, Any]:
        return self.readers.answer({"ask": what, **more})


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_before_the_first_frame_there_is_nothing_to_say(desk: Desk):
    assert "has not seen" in desk.ask("job")["error"]


def test_many_readers_share_one_sum(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    made: list[int] = []
    real = job_status.view_of

    def count(*args: Any, **kwargs: Any) -> Any:
        made.append(1)
        return real(*args, **kwargs)

    monkeypatch.setattr(job_status, "view_of", count)
    desk.readers.note(job(4).snapshot())
    for _ in range(50):
        assert desk.ask("job")["job"]["state"] == "running"
    assert len(made) == 1
    desk.clock.sleep(1)
    desk.ask("job")
    assert len(made) == 2


def test_an_open_verdict_is_named_with_its_bundle(desk: Desk, tmp_path: Path):
    verdict = verdict_of(one_sleeps())
    desk.incidents.add(verdict)
    desk.readers.note_bundle(verdict, tmp_path / "incident-3")
    desk.readers.note(one_sleeps().snapshot())
    found = desk.ask("job")["job"]["open"]
    assert [(one["bundle"], one["verdict"]["cause"]) for one in found] == [
        ("incident-3", verdict.cause)
    ]


def test_stacks_are_asked_for_until_they_are_there_or_nobody_waits(desk: Desk):
    snapshot = job(4).snapshot()
    assert desk.readers.note(snapshot) == ()
    assert desk.ask("stacks", ranks=[1, 2])["stacks"]["1"]["threads"] == ()
    assert desk.readers.note(snapshot) == (EvidenceRequest(EvidenceKind.STACK, (1, 2)),)
    scene = job(4).change(1, threads=("Thread 1",), stack_age=0.1)
    assert desk.readers.note(scene.snapshot()) == (EvidenceRequest(EvidenceKind.STACK, (2,)),)
    assert desk.ask("stacks", ranks=[1])["stacks"]["1"]["threads"] == ("Thread 1",)
    desk.clock.sleep(10)
    assert desk.readers.note(snapshot) == ()
    assert "error" in desk.ask("stacks", ranks="all")


def test_a_dump_waits_for_stacks_but_not_for_ever(desk: Desk, tmp_path: Path):
    snapshot = job(4).snapshot()
    desk.readers.note(snapshot)
    ticket = desk.ask("dump")["ticket"]
    assert desk.ask("dump")["ticket"] == ticket, "two who ask at once get the same dump"
    (request,) = desk.readers.note(snapshot)
    assert request.ranks == (0, 1, 2, 3)
    assert desk.ask("dump", ticket=ticket)["path"] == ""
    desk.clock.sleep(5)
    desk.readers.note(snapshot)
    path = Path(desk.ask("dump", ticket=ticket)["path"])
    assert bundle.read(path).about["asked_for"] == "unstuck dump"
    assert desk.ask("dump")["ticket"] == ticket + 1
    assert "error" in desk.ask("dump", ticket=99)


def test_a_dump_takes_the_stacks_of_those_behind_first(desk: Desk):
    scene = one_sleeps(MOST_STACKS + 10, sleeper=70)
    desk.readers.note(scene.snapshot())
    desk.ask("dump")
    (request,) = desk.readers.note(job(MOST_STACKS + 10).snapshot())
    assert 70 in request.ranks
    assert len(request.ranks) == MOST_STACKS


def test_a_full_disk_is_an_answer(desk: Desk, tmp_path: Path):
    (tmp_path / "file").touch()
    readers = Readers(tmp_path / "file", [], Incidents(), desk.clock)
    readers.note(job(2).snapshot())
    ticket = readers.answer({"ask": "dump"})["ticket"]
    desk.clock.sleep(5)
    readers.note(job(2).snapshot())
    assert "could not store" in readers.answer({"ask": "dump", "ticket": ticket})["error"]
    readers.write_last()


def test_how_the_job_stood_at_its_end_stays(desk: Desk, tmp_path: Path):
    desk.readers.write_last()
    assert not list(tmp_path.iterdir())
    desk.readers.note(job(4).snapshot())
    desk.readers.write_last()
    content = (tmp_path / job_status.FILE).read_bytes()
    assert msgspec.json.decode(content)["state"] == "ended"
