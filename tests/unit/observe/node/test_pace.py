"""How long a rank usually goes without progress, learned from its own past."""

import pytest

from unstuck.model.rank import LongPlace, Pace
from unstuck.observe.node.pace import Progress, places_of


def test_stall_grows_until_the_frontier_moves():
    progress = Progress(10.0)
    assert progress.look("a", 1, 11.0)
    assert not progress.look("a", 1, 14.0)
    assert progress.stalled_for(14.0) == 3.0
    assert progress.look("b", 2, 15.0)
    assert progress.stalled_for(15.0) == 0.0


def test_warm_up_is_not_part_of_the_pace():
    progress = Progress(0.0)
    for done in range(1, 6):
        progress.look(done, done, done * 100.0)
    assert progress.pace() == Pace(first=100.0)

    for done, now in ((6, 500.5), (7, 501.0), (8, 503.0)):
        progress.look(done, done, now)
    assert progress.pace() == Pace(gaps=3, typical=0.5, longest=2.0, first=100.0)


class Rank:
    """A rank that is looked at ten times a second, wherever it is."""

    def __init__(self) -> None:
        self.now = 0.0
        self.done = 5
        self.progress = Progress(self.now)
        self.progress.look(self.done, self.done, self.now)

    def spend(
        self, seconds: float, *places: str, waiting: bool = False, moves: bool = True
    ) -> None:
        for _ in range(max(1, round(seconds * 10))):
            self.now += 0.1
            self.progress.look(
                self.done, self.done, self.now, waiting=waiting, places=places, line=places[:1]
            )
        if moves:
            self.done += 1
            self.progress.look(self.done, self.done, self.now, waiting=waiting, places=places)

    def train(self, steps: int) -> None:
        for _ in range(steps):
            self.spend(0.1, "train.py:8", "train.py main()")
            self.spend(0.1, "train.py:9", "train.py main()")


def test_a_rare_long_phase_is_known_at_its_place_and_nowhere_else():
    rank = Rank()
    rank.train(40)
    rank.spend(10.0, "train.py:20", "train.py save()", "section save")
    rank.train(40)

    pace = rank.progress.pace()
    assert pace.longest < 0.5
    assert {one.place: one.longest for one in pace.places} == {
        "train.py:20": pytest.approx(10.1, abs=0.2),
        "train.py save()": pytest.approx(10.1, abs=0.2),
        "section save": pytest.approx(10.1, abs=0.2),
    }


def test_the_function_of_the_whole_loop_is_not_long_because_of_one_line():
    rank = Rank()
    rank.train(40)
    rank.spend(10.0, "train.py:20", "train.py main()")
    assert [one.place for one in rank.progress.pace().places] == ["train.py:20"]


def test_long_steps_are_the_ordinary_pace():
    rank = Rank()
    for seconds in (7.0, 6.0, 8.0) * 5:
        rank.spend(seconds, "train.py:8")
        rank.spend(0.1, "train.py:9")
    assert rank.progress.pace().longest == pytest.approx(7.1, abs=0.3)


def test_a_tail_at_two_places_may_happen_anywhere():
    rank = Rank()
    rank.train(20)
    rank.spend(2.0, "train.py:8")
    rank.train(20)
    assert rank.progress.pace().longest < 0.5
    rank.spend(4.0, "train.py:9")
    assert rank.progress.pace().longest == pytest.approx(2.1, abs=0.2)


def test_waiting_for_others_is_not_the_own_pace():
    rank = Rank()
    rank.train(20)
    rank.spend(10.0, "train.py:9", waiting=True)
    pace = rank.progress.pace()
    assert (pace.longest < 0.5, pace.places) == (True, ())
    assert pace.waited == pytest.approx(10.1, abs=0.2)


def test_a_rank_that_always_has_something_in_flight_is_learned_all_the_same():
    rank = Rank()
    for _ in range(12):
        rank.spend(6.0, "train.py:8", waiting=True)
    assert rank.progress.pace().longest == pytest.approx(6.1, abs=0.3)


def test_long_ago_is_forgotten():
    rank = Rank()
    for _ in range(2):
        rank.spend(4.0, "train.py:8")
        rank.spend(4.0, "train.py:9")
    rank.train(130)
    assert rank.progress.pace().places == ()


def test_seconds_of_a_step_are_learned():
    progress = Progress(0.0)
    for step in range(1, 12):
        progress.note_step(step, step * 7.0)
        progress.look(step, step, step * 7.0)
    assert progress.pace().step == 7.0


def test_present_places_and_lines_are_those_since_the_last_move():
    rank = Rank()
    rank.train(3)
    for line in range(30, 34):
        rank.spend(0.1, f"train.py:{line}", "train.py load()", moves=False)
    assert rank.progress.lines == 4
    assert "train.py load()" in rank.progress.places


def test_where_a_rank_is():
    inner = ["lib.py", 3, "wait", False]
    assert places_of("", [inner]) == ()
    assert places_of("save", [inner, ["t.py", 8, "main", True]]) == (
        "t.py:8",
        "t.py main()",
        "section save",
    )


def test_few_places_are_told():
    rank = Rank()
    rank.train(20)
    for line in range(100, 120):
        rank.spend(1.0 + (line == 110), f"train.py:{line}")
    told = rank.progress.pace().places
    assert told[0] == LongPlace("train.py:110", 1, 2.0)
    assert len(told) == 8
