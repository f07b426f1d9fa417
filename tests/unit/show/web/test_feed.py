"""What browsers are sent: the newest, built once for all of them."""

import asyncio
import json
from pathlib import Path
from typing import Any

from scenes import Scene, one_sleeps, verdict_of
from unstuck.model.notice import Notice
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Verdict
from unstuck.show.web.feed import Feed, runs, runs_of_numbers


class Job:
    """A source that a test moves by hand."""

    live = True
    connected = True

    def __init__(self, run: Path) -> None:
        self.run = run
        self.news = asyncio.Event()
        self.scene: Scene = one_sleeps()
        self.verdict: Verdict | None = None
        self.notices: tuple[Notice, ...] = ()

    def snapshot(self) -> Snapshot:
        return self.scene.snapshot()


def read(event: bytes) -> tuple[str, Any]:
    name, data = event.decode().split("\n")[:2]
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def test_a_reader_gets_the_layout_once_and_the_verdict_as_soon_as_there_is_one(tmp_path: Path):
    async def story() -> None:
        job = Job(tmp_path)
        feed = Feed(job)
        await feed.refresh()
        events = feed.events()

        name, layout = read(await anext(events))
        assert (name, layout["ranks"]) == ("layout", [[0, 4]])
        name, first = read(await anext(events))
        assert (name, first["states"], first["verdict"]) == ("job", "w2b1w1", None)

        job.verdict = verdict_of(job.scene)
        await feed.refresh()
        name, second = read(await anext(events))
        assert (name, second["culprits"], second["victims"]) == ("job", [2], "0,1,3")

    asyncio.run(story())


def test_whoever_is_slow_gets_the_newest_only(tmp_path: Path):
    async def story() -> None:
        job = Job(tmp_path)
        feed = Feed(job)
        await feed.refresh()
        slow = feed.events()
        await anext(slow)
        await anext(slow)
        for step in (50, 60, 70):
            job.scene.change(0, step=step)
            await feed.refresh()

        assert read(await anext(slow))[1]["step"] == 70

    asyncio.run(story())


def test_news_is_sent_at_once(tmp_path: Path):
    async def story() -> None:
        job = Job(tmp_path)
        feed = Feed(job)
        task = asyncio.create_task(feed.run())
        events = feed.events()
        await anext(events)
        await anext(events)
        job.verdict = verdict_of(job.scene)
        job.news.set()
        async with asyncio.timeout(20):
            while read(await anext(events))[1]["verdict"] is None:
                pass
        task.cancel()

    asyncio.run(story())


def test_many_ranks_are_written_shortly():
    assert runs("w" * 99_999 + "b") == "w99999b1"
    assert runs("") == ""
    assert runs_of_numbers((0, 1, 2, 8, 9, 4)) == [(0, 3), (8, 2), (4, 1)]
