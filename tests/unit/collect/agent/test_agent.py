"""A real agent process: what it tells the hub, what it fetches, and when it leaves."""

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from children import PAGE, Child, child, rank_env, recorded, recorder_of
from clocks import FakeClock
from hubs import TOKEN, agent, run, serving
from unstuck.collect.agent.agent import Agent
from unstuck.collect.agent.local_ranks import NO_PROGRESS
from unstuck.collect.agent.orders import STOP_FILE
from unstuck.model.order import Act, Order, Target
from unstuck.model.requests import EvidenceKind, EvidenceRequest
from unstuck.model.snapshot import Snapshot


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[Child]:
    (tmp_path / "live").mkdir()
    with child(tmp_path, PAGE, rank_env(tmp_path / "live", rank=3)) as started:
        started.do("1")
        yield started


def tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


async def ended(process: subprocess.Popen[str]) -> str:
    """Wait for its end and return what it said."""
    assert await asyncio.to_thread(process.wait, 15) == 0
    assert process.stderr is not None
    return process.stderr.read()


def test_rank_is_reported_with_its_end(rank: Child, tmp_path: Path):
    async def story() -> None:
        async with serving() as hub:
            with agent(tmp_path / "live", hub.port) as process:
                snapshot = await hub.until(lambda s: s.ranks)
                assert [(r.rank, r.process.pid) for r in snapshot.ranks] == [(3, rank.pid)]
                rank.tell("os._exit(7)")
                snapshot = await hub.until(lambda s: s.ranks[0].process.gone_for is not None)
                assert snapshot.ranks[0].process.exit_code == 7
                tell(process, "stopping")
                await hub.until(lambda s: s.nodes[0].stopping)
                tell(process, "ended")
                assert await ended(process) == ""
                await asyncio.wait_for(hub.task, 10)
                assert hub.snapshots[-1].nodes[0].ended
        assert list((tmp_path / "live").iterdir()) == []

    run(story())


def test_exit_code_told_by_the_launcher(rank: Child, tmp_path: Path):
    async def story() -> None:
        async with serving() as hub:
            with agent(tmp_path / "live", hub.port) as process:
                await hub.until(lambda s: s.ranks)
                tell(process, f"exit {rank.pid} 5")
                tell(process, "a word it does not know")
                tell(process, "exit")
                snapshot = await hub.until(lambda s: s.ranks[0].process.gone_for is not None)
                assert snapshot.ranks[0].process.exit_code == 5

    run(story())


def test_evidence_that_is_asked_for_comes_with_the_next_frame(rank: Child, tmp_path: Path):
    async def story() -> None:
        async with serving() as hub:
            with agent(tmp_path / "live", hub.port):
                await hub.until(lambda s: s.ranks)
                assert hub.snapshots[-1].ranks[0].threads == ()
                hub.wants = (EvidenceRequest(EvidenceKind.STACK, (3,)),)
                snapshot = await hub.until(lambda s: s.ranks[0].threads)
                assert snapshot.ranks[0].stack[-1].file == str(rank.script)

    run(story())


def test_evidence_of_other_ranks_is_not_fetched(rank: Child, tmp_path: Path):
    async def story() -> None:
        async with serving() as hub:
            hub.wants = (EvidenceRequest(EvidenceKind.STACK, (4,)),)
            with agent(tmp_path / "live", hub.port):
                await hub.until(lambda s: s.ranks and len(hub.snapshots) > 3)
                assert hub.snapshots[-1].ranks[0].stack_age is None

    run(story())


def test_hub_that_was_started_again_is_found(rank: Child, tmp_path: Path):
    async def story() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        async with serving(listener.dup()) as first:
            with agent(tmp_path / "live", first.port):
                await first.until(lambda s: s.ranks)
                first.task.cancel()
                for writer in list(first.hub._sessions.values()):
                    writer.close()
                async with serving(listener) as second:
                    snapshot = await second.until(lambda s: s.ranks)
                    assert snapshot.ranks[0].rank == 3

    run(story())


def test_agent_leaves_when_its_launcher_dies_and_no_rank_lives(tmp_path: Path):
    async def story() -> None:
        async with serving() as hub:
            with agent(tmp_path, hub.port) as process:
                assert process.stdin is not None
                process.stdin.close()
                assert await ended(process) == ""

    run(story())


def test_agent_without_a_launcher_stays_while_its_ranks_live(rank: Child, tmp_path: Path):
    async def story() -> None:
        async with serving() as hub:
            with agent(tmp_path / "live", hub.port) as process:
                await hub.until(lambda s: s.ranks)
                assert process.stdin is not None
                process.stdin.close()
                rank.do("page.step(9)")
                await hub.until(lambda s: s.ranks[0].step == 9)
                assert process.poll() is None
                rank.tell("os._exit(0)")
                await hub.until(lambda s: s.nodes[0].ended)
                assert await ended(process) == ""

    run(story())


def test_interrupt_is_for_the_job(rank: Child, tmp_path: Path):
    async def story() -> None:
        async with serving() as hub:
            with agent(tmp_path / "live", hub.port) as process:
                await hub.until(lambda s: s.ranks)
                os.kill(process.pid, signal.SIGINT)
                rank.do("page.step(9)")
                await hub.until(lambda s: s.ranks[0].step == 9)

    run(story())


def test_refusal_is_said_once_and_does_not_keep_the_agent(tmp_path: Path):
    async def story() -> None:
        async with serving() as hub:
            with agent(tmp_path, hub.port, token="another") as process:
                assert process.stderr is not None
                said = await asyncio.to_thread(process.stderr.readline)
                assert "refused this node: wrong token" in said
                tell(process, "ended")
                assert await ended(process) == ""

    run(story())


def test_job_without_a_hub_ends_at_once(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with agent(tmp_path, port) as process:
        tell(process, "ended")
        assert process.wait(15) == 0


def test_rank_whose_probe_failed_is_unobserved_with_the_reason(rank: Child, tmp_path: Path):
    live = tmp_path / "live"
    (live / f"rank-1.{os.getpid()}.problem").write_text("ImportError: no module x")
    (live / "rank-x.7.problem").write_text("not a rank")

    async def story() -> None:
        async with serving() as hub:
            with agent(live, hub.port):
                snapshot = await hub.until(lambda s: len(s.ranks) == 2)
                assert unobserved(snapshot) == {1: "ImportError: no module x", 3: ""}

    run(story())


def test_rank_whose_probe_failed_halfway_is_there_once_with_the_reason(tmp_path: Path):
    (tmp_path / "live").mkdir()
    half = PAGE.replace("report()\n", "")
    env = rank_env(tmp_path / "live", rank=3)

    async def story() -> None:
        async with serving() as hub:
            with child(tmp_path, half, env) as rank, agent(tmp_path / "live", hub.port):
                rank.do("open(base + '.problem', 'w').write('OSError: no socket')")
                snapshot = await hub.until(lambda s: s.ranks and "OSError" in s.ranks[0].unobserved)
                assert unobserved(snapshot) == {3: "OSError: no socket"}
                assert len(snapshot.ranks) == 1

    run(story())


def test_page_that_cannot_be_understood_hides_no_other_rank(rank: Child, tmp_path: Path):
    env = rank_env(tmp_path / "live", rank=4)

    async def story() -> None:
        async with serving() as hub:
            with child(tmp_path / "odd", PAGE, env) as odd, agent(tmp_path / "live", hub.port):
                await hub.until(lambda s: len(s.ranks) == 2)
                odd.do("report(p2p=[['a version', 'with more', 'fields', 1, 2, 3, 4, 5, 6]])")
                await hub.until(lambda s: s.ranks[1].unobserved)
                rank.do("page.step(9)")
                snapshot = await hub.until(lambda s: s.ranks[0].step == 9)
                assert snapshot.ranks[1].process.pid == odd.pid
                assert "page" in snapshot.ranks[1].unobserved

    run(story())


def test_restarted_rank_replaces_the_dead_one(rank: Child, tmp_path: Path):
    env = rank_env(tmp_path / "live", rank=3)

    async def story() -> None:
        async with serving() as hub:
            with agent(tmp_path / "live", hub.port):
                await hub.until(lambda s: s.ranks)
                rank.tell("os._exit(1)")
                await hub.until(lambda s: s.ranks[0].process.gone_for is not None)
                with child(tmp_path / "again", PAGE, env) as fresh:
                    fresh.do("report(attempt='a:1/1', restarts=1)")
                    snapshot = await hub.until(lambda s: s.attempt == 1)
                    assert [r.process.pid for r in snapshot.ranks] == [fresh.pid]
                    assert len(list((tmp_path / "live").glob("*.page"))) == 1

    run(story())


def unobserved(snapshot: Snapshot) -> dict[int, str]:
    return {rank.rank: rank.unobserved for rank in snapshot.ranks}


def test_recorders_of_the_others_are_read_when_a_rank_dies(rank: Child, tmp_path: Path):
    live = tmp_path / "live"

    def pending(snapshot: Snapshot) -> bool:
        return any(group.pending for one in snapshot.ranks for group in one.groups)

    async def story() -> None:
        async with serving() as hub:
            with child(tmp_path / "other", PAGE, rank_env(live, rank=4)) as other:
                other.do("1")
                page = next(live.glob("rank-4.*.page"))
                with recorder_of(page, recorded(4, size=6000)), agent(live, hub.port):
                    await hub.until(lambda s: len(s.ranks) == 2)
                    assert not pending(hub.snapshots[-1])
                    rank.tell("os._exit(7)")
                    snapshot = await hub.until(pending)
                    assert snapshot.ranks[1].groups[0].pending[0].sizes == ((6000,),)

    run(story())


def test_end_of_a_launcher_that_is_no_rank(rank: Child, tmp_path: Path):
    async def story() -> None:
        async with serving() as hub:
            with agent(tmp_path / "live", hub.port) as process:
                snapshot = await hub.until(lambda s: s.ranks)
                assert snapshot.nodes[0].launcher_exit is None
                tell(process, "exit 1 -9")
                snapshot = await hub.until(lambda s: s.nodes[0].launcher_exit is not None)
                assert snapshot.nodes[0].launcher_exit == -9
                assert snapshot.ranks[0].process.gone_for is None

    run(story())


def test_rank_is_ended_on_order_with_the_verdict_in_its_error_file(rank: Child, tmp_path: Path):
    error = tmp_path / "error.json"
    rank.do(f"report(error_file={str(error)!r})")
    order = Order(1, Act.END, (Target(3, rank.pid),), culprits=(3,), summary="Rank 3 is stopped.")

    async def story() -> None:
        async with serving() as hub:
            with agent(tmp_path / "live", hub.port, TOKEN, "--obey"):
                await hub.until(lambda s: s.ranks)
                os.kill(rank.pid, signal.SIGSTOP)
                hub.hub.order(order)
                gone = await hub.until(lambda s: s.ranks[0].process.gone_for is not None)
                assert gone.ranks[0].process.exit_code in (-9, None)

    run(story())
    assert "Rank 3 is stopped." in error.read_text()


def test_agent_that_may_not_act_leaves_the_rank_alone(rank: Child, tmp_path: Path):
    async def story() -> None:
        async with serving() as hub:
            with agent(tmp_path / "live", hub.port) as process:
                await hub.until(lambda s: s.ranks)
                hub.hub.order(Order(1, Act.END, (Target(3, rank.pid),)))
                hub.hub.order(Order(2, Act.STOP, code=82))
                tell(process, "ended")
                assert "started without --recover" in await ended(process)

    run(story())
    assert rank.do("1 + 1") == 2
    assert not (tmp_path / "live" / STOP_FILE).exists()


@pytest.mark.parametrize("stalled", [True, False])
def test_node_that_is_cut_off_leaves_only_if_its_ranks_make_no_progress(
    rank: Child, tmp_path: Path, stalled: bool, capsys: pytest.CaptureFixture[str]
):
    async def story() -> None:
        clock = FakeClock()
        cut_off = Agent(tmp_path / "live", "here/1", "here", ("127.0.0.1", 1), TOKEN, clock=clock)
        cut_off.orders.may_act = True
        cut_off.ranks.look()
        if stalled:
            clock.sleep(NO_PROGRESS + 0.2)
        cut_off.leave("cut off from the hub for 15 s")

    run(story())
    assert (tmp_path / "live" / STOP_FILE).exists() is stalled
    assert ("this node leaves the job (exit code 86)" in capsys.readouterr().err) is stalled
