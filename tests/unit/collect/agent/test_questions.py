"""Ranks ask a real agent process, which asks a real hub; then without the hub."""

import asyncio
import contextlib
import json
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from children import PAGE, Child, child, rank_env, until
from hubs import agent, connect, run, serving
from unstuck.collect.agent.questions import QuestionServer
from unstuck.model.frame import Frame
from unstuck.model.rank import Phase, Process, ProcessState, RankState
from unstuck.observe.probe import link


@pytest.fixture
def live(tmp_path: Path) -> Path:
    (tmp_path / "live").mkdir(mode=0o700)
    return tmp_path / "live"


@pytest.fixture
def rank(tmp_path: Path, live: Path) -> Iterator[Child]:
    with child(tmp_path, PAGE, rank_env(live, rank=3)) as started:
        started.do("1")
        yield started


async def ask(live: Path, question: dict[str, Any]) -> dict[str, Any]:
    found = await asyncio.to_thread(link.ask, question, 5.0, str(live / link.SOCKET))
    assert found is not None
    return found


async def asked_until(live: Path, question: dict[str, Any], look: Any) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while True:
            path = str(live / link.SOCKET)
            found = await asyncio.to_thread(link.ask, question, 5.0, path)
            if found is not None and look(found):
                return found
            await asyncio.sleep(0.02)


def test_rank_is_told_what_all_ranks_of_the_job_do(rank: Child, live: Path):
    async def story() -> None:
        async with serving() as hub:
            far = await connect(hub.port, "there/1")
            stopped = RankState(
                5, "there", Process(9, ProcessState.STOPPED), attempt="a:1/0", stalled_for=4.0
            )
            await far.send("there/1", stopped)
            with agent(live, hub.port):
                await hub.until(lambda s: len(s.ranks) == 2)
                rank.do("report(status={'0': [3, 2]}, frames=[['t.py', 7, 'step', True]])")
                told = await asked_until(
                    live, {"ask": "ranks"}, lambda a: a["ranks"]["3"]["state"] == "waiting"
                )
                assert (told["whole"], sorted(told["ranks"])) == (True, ["3", "5"])
                three, five = told["ranks"]["3"], told["ranks"]["5"]
                assert (three["file"], three["line"], three["function"]) == ("t.py", 7, "step")
                assert three["doing"] == "waits in collective number 3 of group 0"
                assert (five["host"], five["state"], five["doing"]) == (
                    "there", "stopped", "is stopped",
                )  # fmt: skip
                assert five["seconds"] == 4.0
                only = await ask(live, {"ask": "ranks", "ranks": [5, 77]})
                assert list(only["ranks"]) == ["5"]
            await far.close()

    run(story())


def test_socket_is_for_this_user_only(live: Path):
    async def story() -> None:
        async with serving() as hub:
            with agent(live, hub.port):
                await asked_until(live, {"ask": "peers"}, lambda a: a["whole"])
                mode = (live / link.SOCKET).stat()
                assert stat.S_ISSOCK(mode.st_mode)
                assert stat.S_IMODE(live.stat().st_mode) == 0o700

    run(story())


@pytest.mark.parametrize(
    ("answer", "why"),
    [(None, "the hub does not answer"), ("x" * link.MOST_ANSWER, "the hub's answer is too long")],
)
def test_without_its_hub_the_agent_answers_for_its_own_ranks_and_says_so(
    live: Path, answer: str | None, why: str
):
    mine = RankState(3, "here", Process(7, ProcessState("S")), phase=Phase("run"))

    async def ask_hub(_text: str, _within: float) -> str | None:
        return answer

    async def story() -> None:
        server = QuestionServer(live, ask_hub, lambda: Frame("here/1", "here", 1, 0.0, (mine,)))
        await server.open()
        ranks = await ask(live, {"ask": "ranks"})
        assert (list(ranks["ranks"]), ranks["whole"]) == (["3"], False)
        assert ranks["why"] == f"{why}: this is what one node sees"
        peers = await ask(live, {"ask": "peers"})
        assert (peers["nodes"]["here/1"]["alive"], peers["whole"]) == (True, False)
        assert peers["ranks"]["3"]["silent"] is False
        server.close(remove=True)
        await asyncio.sleep(0)

    run(story())


def test_silent_rank_shows_in_peers(rank: Child, live: Path):
    async def story() -> None:
        async with serving() as hub:
            with agent(live, hub.port):
                await hub.until(lambda s: s.ranks)
                os.kill(rank.pid, signal.SIGSTOP)
                told = await asked_until(
                    live, {"ask": "peers"}, lambda a: a["ranks"]["3"]["state"] == "stopped"
                )
                assert told["ranks"]["3"]["silent"]
                assert told["ranks"]["3"]["alive"]
                assert told["nodes"]["here/1"]["ranks"] == [3]
                os.kill(rank.pid, signal.SIGCONT)
                await asked_until(live, {"ask": "peers"}, lambda a: not a["ranks"]["3"]["silent"])

    run(story())


def test_ctl_goes_to_the_hub_as_it_is(live: Path):
    async def story() -> None:
        async with serving() as hub:
            with agent(live, hub.port):
                await hub.until(lambda s: s.nodes)
                refused = await ask(live, {"ctl": "pause"})
                assert refused == {"error": "this hub takes no ctl"}
                hub.hub.ctl = lambda message: {"done": message}
                assert await ask(live, {"ctl": {"set": 7}}) == {"done": {"set": 7}}

                def fail(_: Any) -> dict[str, Any]:
                    raise KeyError("odd")

                hub.hub.ctl = fail
                assert await ask(live, {"ctl": 1}) == {"error": "KeyError: 'odd'"}

    run(story())


def test_news_reach_subscribers_and_what_holds_also_latecomers(live: Path):
    async def story() -> None:
        async with serving() as hub:
            heard: list[dict[str, Any]] = []
            late: list[dict[str, Any]] = []
            with agent(live, hub.port):
                await hub.until(lambda s: s.nodes)
                path = str(live / link.SOCKET)
                first = link.Subscription("verdicts", heard.append, at=path)
                assert await asyncio.to_thread(first.connected.wait, 10)
                hub.hub.publish("verdicts", '{"verdict": 1}', holds=True)
                await asyncio.to_thread(until, lambda: heard == [{"verdict": 1}])
                second = link.Subscription("verdicts", late.append, at=path)
                await asyncio.to_thread(until, lambda: late == [{"verdict": 1}])
                hub.hub.publish("verdicts", '{"verdict": null}\n', holds=False)
                await asyncio.to_thread(until, lambda: len(heard) + len(late) == 4)
                third = link.Subscription("verdicts", late.append, at=path)
                assert await asyncio.to_thread(third.connected.wait, 10)
                assert late[-1] == {"verdict": None}
                for one in (first, second, third):
                    await asyncio.to_thread(one.close)

    run(story())


@pytest.mark.parametrize(
    "line", [b"no json\n", b"[]\n", b'{"ask": "the oracle"}\n', b"{}\n", b'{"subscribe": "all"}\n']
)
def test_odd_question_gets_an_error(live: Path, line: bytes):
    async def story() -> None:
        async with serving() as hub:
            with agent(live, hub.port):
                await asked_until(live, {"ask": "peers"}, lambda a: a["whole"])
                reader, writer = await asyncio.open_unix_connection(str(live / link.SOCKET))
                writer.write(line)
                assert "error" in json.loads(await reader.readline())
                writer.close()
                assert (await ask(live, {"ask": "peers"}))["whole"]

    run(story())


def test_too_long_a_question_is_cut_off_and_others_are_served(live: Path):
    async def story() -> None:
        async with serving() as hub:
            with agent(live, hub.port):
                await asked_until(live, {"ask": "peers"}, lambda a: a["whole"])
                reader, writer = await asyncio.open_unix_connection(str(live / link.SOCKET))
                with contextlib.suppress(OSError):
                    writer.write(b"x" * (1 << 20))
                    await writer.drain()
                    assert await reader.read() == b""
                writer.close()
                assert (await ask(live, {"ask": "peers"}))["whole"]

    run(story())


def test_agent_that_was_started_again_is_found_at_the_same_place(live: Path):
    async def story() -> None:
        async with serving() as hub:
            heard: list[dict[str, Any]] = []
            with agent(live, hub.port) as first:
                await hub.until(lambda s: s.nodes)
                path = str(live / link.SOCKET)
                subscription = link.Subscription("verdicts", heard.append, at=path)
                assert await asyncio.to_thread(subscription.connected.wait, 10)
                first.kill()
                await asyncio.to_thread(until, lambda: not subscription.connected.is_set())
            with agent(live, hub.port):
                assert await asyncio.to_thread(subscription.connected.wait, 10)
                hub.hub.publish("verdicts", '{"verdict": 2}', holds=True)
                await asyncio.to_thread(until, lambda: heard == [{"verdict": 2}])
                await asyncio.to_thread(subscription.close)

    run(story())
