"""Who fell silent and who is back: by the hub's word, and by one node's own eyes."""

import json
from typing import Any

from unstuck.collect.agent.peer_events import PeerEvents
from unstuck.model.frame import Frame
from unstuck.model.host import PeerLink
from unstuck.model.rank import Phase, Process, ProcessState, RankState

GONE = {"host": "b", "state": "gone", "alive": False, "silent": True, "since": "", "seconds": 1.0}


def events(lines: list[str]) -> list[tuple[str, list[str]]]:
    found: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return [(one["event"], sorted(one["ranks"])) for one in found]


def frame(*links: PeerLink, state: str = "S") -> Frame:
    mine = RankState(0, "a", Process(7, ProcessState(state)), phase=Phase("run"))
    return Frame("a/1", "a", 1, 0.0, (mine,), links=links)


def test_every_change_is_said_once():
    known = PeerEvents()
    assert events(known.update({"2": GONE, "3": GONE})) == [("silent", ["2", "3"])]
    assert known.update({"2": GONE, "3": GONE}) == []
    assert events(known.update({"3": GONE, "4": GONE})) == [("silent", ["4"]), ("back", ["2"])]
    assert events([known.current() or ""]) == [("silent", ["3", "4"])]
    assert events(known.update({})) == [("back", ["3", "4"])]
    assert known.current() is None


def test_node_without_a_hub_judges_its_neighbours_by_itself():
    known = PeerEvents()
    known.set_roster(json.dumps({"a": [0], "b": [1, 2], "c": [3]}))
    well = PeerLink("c/1", "c", 0.1)
    assert known.judge_alone(frame(PeerLink("b/1", "b", 0.2), well)) == []
    lost = PeerLink("b/1", "b", 1.4, suspect=True)
    assert events(known.judge_alone(frame(lost, well))) == [("silent", ["1", "2"])]
    assert events(known.judge_alone(frame(lost, well, state="T"))) == [("silent", ["0"])]
    assert events(known.judge_alone(frame(PeerLink("b/1", "b", 0.1), well))) == [
        ("back", ["0", "1", "2"])
    ]


def test_whom_nobody_here_asks_stays_as_the_hub_said():
    known = PeerEvents()
    known.set_roster(json.dumps({"a": [0], "b": [1]}))
    known.update({"1": GONE})
    assert known.judge_alone(frame()) == []


def alone_without_the_other() -> PeerEvents:
    known = PeerEvents()
    known.set_roster(json.dumps({"a": [0], "b": [1]}))
    known.judge_alone(frame(PeerLink("b/1", "b", 1.4, suspect=True)))
    return known


def test_hub_that_is_back_corrects_it():
    known = alone_without_the_other()
    assert events(known.from_hub({}, alone=False)) == [("back", ["1"])]


def test_hub_that_missed_nobody_corrects_it_without_a_word():
    known = alone_without_the_other()
    assert events(known.rejoin()) == [("back", ["1"])]
    assert known.rejoin() == []


def test_word_that_a_cut_held_up_says_nothing_until_the_hub_is_back():
    known = alone_without_the_other()
    assert known.from_hub({"0": GONE}, alone=True) == []
    assert known.judge_alone(frame(PeerLink("b/1", "b", 1.6, suspect=True))) == []
    assert events(known.rejoin()) == [("silent", ["0"]), ("back", ["1"])]
