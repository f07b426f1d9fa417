"""A hub that is slower than its input reads the newest frame of each node."""

from hubs import connect, run_fast, serving
from unstuck.collect import wire
from unstuck.collect.hub.inbox import Arrived, Inbox
from unstuck.collect.parts import LARGE
from unstuck.model.rank import GroupProgress, Process, RankState

ODD = tuple(number * number % 997 for number in range(LARGE))
GROUP = GroupProgress("0", ODD, 1, 1)
RANK = RankState(0, "a", Process(7), attempt="x", world_size=1, groups=(GROUP,))


def frame(text: str, *, lasting: bool = False) -> Arrived:
    return Arrived(None, text.encode(), [], 0.0, lasting)


def test_newer_frame_replaces_what_waits_but_not_what_is_said_once():
    inbox = Inbox(now=0.0)
    for node in ("a/1", "b/1"):
        for one in (frame("1"), frame("back", lasting=True), frame("2"), frame("3")):
            inbox.put(node, one)
    assert [one.body for one in inbox.take("b/1")] == [b"back", b"3"]
    assert [one.body for one in inbox.take()] == [b"back", b"3"]
    assert not inbox


def test_hub_that_skips_much_says_so_once_a_minute():
    inbox = Inbox(now=0.0)
    for _ in range(10):
        inbox.put("a/1", frame("1"))
    assert inbox.complaint(59.0) == ""
    said = "this hub is slower than its input: in the last minute it skipped 9 of 10 frames, of 1"
    assert inbox.complaint(60.0).startswith(said)
    for _ in range(100):
        inbox.put("a/1", frame("1"))
        list(inbox.take())
    assert inbox.complaint(120.0) == ""


def test_restarted_hub_asks_for_what_it_lacks_and_is_whole_with_the_first_frame():
    async def story() -> None:
        for _ in range(2):
            async with serving() as hub:
                agent = await connect(hub.port, "a/1")
                await agent.send("a/1", RANK)
                lack = await agent.receive()
                assert isinstance(lack, wire.Lack)
                assert agent.session is not None
                agent.say(wire.Parts(agent.session.packer.bodies(lack.wanted)))
                assert (await hub.until(lambda s: s.ranks)).ranks == (RANK,)
                other = await connect(hub.port, "b/1")
                await other.send("b/1", RankState(1, "b", Process(8), "x", groups=(GROUP,)))
                found = (await hub.until(lambda s: len(s.ranks) == 2)).ranks
                assert found[0].groups[0].ranks is found[1].groups[0].ranks
                await agent.close()
                await other.close()

    run_fast(story())


def test_frames_that_arrive_together_are_not_all_read():
    async def story() -> None:
        async with serving() as hub:
            agent = await connect(hub.port, "a/1")
            for step in range(50):
                await agent.send("a/1", RankState(0, "a", Process(7), "x", step=step))
            await hub.until(lambda s: s.ranks and s.ranks[0].step == 49)
            assert sum(hub.hub._inbox._skipped.values()) > 0
            await agent.close()

    run_fast(story())
