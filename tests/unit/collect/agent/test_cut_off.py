"""The story of a node without its hub: on disk, whole after a restart, told once."""

from pathlib import Path

import msgspec

from unstuck.collect.agent.cut_off import CutOffLog, Entry
from unstuck.model.host import PeerLink
from unstuck.model.rank import Process, ProcessState, RankState

ALIVE = RankState(3, "here", Process(7, ProcessState.SLEEPING), step=40, stalled_for=2.0)
NEAR, FAR = PeerLink("near/1", "near", 0.2, 0.2), PeerLink("far/1", "far", 4.0, 4.0)


def lines(file: Path) -> list[Entry]:
    return [msgspec.json.decode(line, type=Entry) for line in file.read_bytes().splitlines()]


def test_story_has_a_beginning_and_an_end_on_disk(tmp_path: Path):
    file = tmp_path / "story"
    story = CutOffLog(file)
    assert not story.is_open
    entry = story.note(3.0, [NEAR, FAR], [ALIVE])
    assert entry is not None
    assert story.is_open
    told = story.end()

    assert told is not None
    assert 3.0 <= told.seconds < 4.0
    assert (told.heard, told.unheard) == (("near",), ("far",))
    assert [one.event for one in lines(file)] == ["lost", "back"]
    assert [(rank.rank, rank.pid) for rank in lines(file)[0].ranks] == [(3, 7)]
    assert story.end() is None


def test_only_news_are_written(tmp_path: Path):
    file = tmp_path / "story"
    story = CutOffLog(file)
    for stalled in (1.0, 2.0, 3.0):
        rank = msgspec.structs.replace(ALIVE, stalled_for=stalled)
        story.note(3.0, [NEAR, FAR], [rank])
    assert len(lines(file)) == 1
    story.note(3.0, [FAR], [ALIVE])
    gone = RankState(3, "here", Process(7, ProcessState.GONE, gone_for=0.1, exit_code=1))
    story.note(3.0, [FAR], [gone])
    assert [one.event for one in lines(file)] == ["lost", "still", "still"]


def test_host_that_was_unheard_for_a_while_was_not_heard_all_the_time():
    story = CutOffLog(None)
    story.note(3.0, [NEAR, FAR], [])
    story.note(3.0, [PeerLink("near/1", "near", 9.0), PeerLink("far/1", "far", 0.1)], [])
    told = story.end()
    assert told is not None
    assert (told.heard, told.unheard) == ((), ("far", "near"))


def test_host_that_may_be_lost_as_well_is_not_called_heard():
    entry = CutOffLog(None).note(2.5, [NEAR, PeerLink("new/1", "new", 1.6), FAR], [])
    assert entry is not None
    assert (entry.heard, entry.unheard) == (("near",), ("far",))


def test_link_that_never_worked_is_no_part_of_it():
    story = CutOffLog(None)
    entry = story.note(3.0, [PeerLink("x/1", "x")], [])
    assert entry is not None
    assert (entry.heard, entry.unheard) == ((), ())


def test_restarted_agent_is_open_with_the_story(tmp_path: Path):
    file = tmp_path / "story"
    CutOffLog(file).note(100.0, [FAR], [ALIVE])
    again = CutOffLog(file)
    assert again.is_open
    told = again.end()
    assert told is not None
    assert told.seconds >= 100.0
    assert told.unheard == ("far",)
    assert not CutOffLog(file).is_open


def test_damaged_file_or_full_disk_do_not_matter(tmp_path: Path):
    (tmp_path / "damaged").write_bytes(b"{}\n\xff")
    assert not CutOffLog(tmp_path / "damaged").is_open
    story = CutOffLog(tmp_path / "missing" / "story")
    story.note(3.0, [FAR], [ALIVE])
    assert story.end() is not None
