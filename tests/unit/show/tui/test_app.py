"""The live screen, driven by keys as a person presses them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from scenes import one_sleeps
from served_runs import ServedRun
from unstuck.show import runs
from unstuck.show.tui.app import StackScreen, Top

Serve = Callable[..., ServedRun]


def drive(story: Callable[[Top, Pilot[Any]], Awaitable[None]], size: tuple[int, int]) -> None:
    async def session() -> None:
        app = Top(runs.find(None))
        async with app.run_test(size=size) as pilot:
            await story(app, pilot)

    asyncio.run(session())


async def until(pilot: Pilot[Any], look: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while not look():
            await pilot.pause(0.05)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_keys_lead_from_the_culprit_to_others_and_into_a_stack(serve: Serve, size: tuple[int, int]):
    served = serve(snapshot=one_sleeps(64).snapshot())

    async def story(app: Top, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: app.shown_rank == 2)
        assert "stalled" in str(app.query_one("#head", Static).render())
        await pilot.press("right", "right")
        await until(pilot, lambda: app.shown_rank not in (None, 2))
        await pilot.press("c")
        await until(pilot, lambda: app.shown_rank == 2)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, StackScreen))
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, StackScreen))
        await pilot.press("d")
        await until(pilot, (served.path / "incident-2").exists)
        await pilot.press("q")

    drive(story, size)


def test_the_end_of_the_job_is_shown_and_the_last_picture_stays(serve: Serve):
    served = serve()

    async def story(app: Top, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: app.shown_rank == 2)
        served.end()
        await until(pilot, lambda: "ended" in str(app.query_one("#head", Static).render()))
        assert app.shown_rank == 2

    drive(story, (80, 24))
