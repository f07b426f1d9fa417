"""Who fell silent and who is back: by the hub's word, and by one node's own eyes."""

import json
from typing import Any

from unstuck.collect.rollcall import RollCall
from unstuck.model.frame import Frame
from unstuck.model.host import PeerLink
from unstuck.model.rank import Process, RankState

GONE = {"host": "b", "state": "gone", "alive": False, "silent": True, "since": "", "seconds": 1.0}


def events(lines: list[str]) -> list[tuple[str, list[str]]]:
    found: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return [(one["event"], sorted(one["ranks"])) for one in found]


def frame(*links: PeerLink, state: str = "S") -> Frame:
    mine = RankState(0, "a", Process(7, state), phase="run")
    return Frame("a/1", "a", 1, 0.0, (mine,), links=links)


def test_every_change_is_said_once():
    roll = RollCall()
    assert events(roll.update({"2": GONE, "3": GONE})) == [("silent", ["2", "3"])]
    assert roll.update({"2": GONE, "3": GONE}) == []
    assert events(roll.update({"3": GONE, "4": GONE})) == [("silent", ["4"]), ("back", ["2"])]
    assert events([roll.held() or ""]) == [("silent", ["3", "4"])]
    assert events(roll.update({})) == [("back", ["3", "4"])]
    assert roll.held() is None


def test_node_without_a_hub_judges_its_neighbours_by_itself():
    roll = RollCall()
    roll.know(json.dumps({"a": [0], "b": [1, 2], "c": [3]}))
    well = PeerLink("c/1", "c", 0.1)
    assert roll.judge_alone(frame(PeerLink("b/1", "b", 0.2), well)) == []
    lost = PeerLink("b/1", "b", 1.4, suspect=True)
    assert events(roll.judge_alone(frame(lost, well))) == [("silent", ["1", "2"])]
    assert events(roll.judge_alone(frame(lost, well, state="T"))) == [("silent", ["0"])]
    assert events(roll.judge_alone(frame(PeerLink("b/1", "b", 0.1), well))) == [
        ("back", ["0", "1", "2"])
    ]


def test_whom_nobody_here_asks_stays_as_the_hub_said():
    roll = RollCall()
    roll.know(json.dumps({"a": [0], "b": [1]}))
    roll.update({"1": GONE})
    assert roll.judge_alone(frame()) == []


def alone_without_the_other() -> RollCall:
    roll = RollCall()
    roll.know(json.dumps({"a": [0], "b": [1]}))
    roll.judge_alone(frame(PeerLink("b/1", "b", 1.4, suspect=True)))
    return roll


def test_hub_that_is_back_corrects_it():
    roll = alone_without_the_other()
    assert events(roll.hear({}, alone=False)) == [("back", ["1"])]


def test_hub_that_missed_nobody_corrects_it_without_a_word():
    roll = alone_without_the_other()
    assert events(roll.rejoin()) == [("back", ["1"])]
    assert roll.rejoin() == []


def test_word_that_a_cut_held_up_says_nothing_until_the_hub_is_back():
    roll = alone_without_the_other()
    assert roll.hear({"0": GONE}, alone=True) == []
    assert roll.judge_alone(frame(PeerLink("b/1", "b", 1.6, suspect=True))) == []
    assert events(roll.rejoin()) == [("silent", ["0"]), ("back", ["1"])]
