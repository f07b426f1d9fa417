"""What a culprit does survives JSON, and what an older version wrote can still be read."""

import msgspec
import pytest

from unstuck.model import doing as d
from unstuck.model.neighbour import Neighbour
from unstuck.model.rank import Process, ProcessState
from unstuck.model.verdict import Culprit


@pytest.mark.parametrize(
    "activity",
    [
        d.Asleep(section="load"),
        d.NotJoined(d.WaitsForProcess((Neighbour(7, "sh"),), d.Child.STOPPED), d.Before.IMPORT),
        d.Slow(0.3, 0.1, lacks=d.Starved(d.Resource.MEMORY, 0.5)),
        d.Killed("SIGKILL"),
    ],
)
def test_round_trip(activity: d.Activity) -> None:
    culprit = Culprit(2, "node7", "does something", activity=activity)
    assert msgspec.json.decode(msgspec.json.encode(culprit), type=Culprit) == culprit


def test_a_kind_is_a_word_with_hyphens() -> None:
    assert msgspec.json.encode(d.WaitsForLock()) == b'{"kind":"waits-for-lock"}'


def test_a_culprit_of_an_older_version_has_its_phrase_only() -> None:
    old = msgspec.json.decode(b'{"rank":2,"host":"node7","doing":"is asleep"}', type=Culprit)
    assert (old.doing, old.kind, old.activity) == ("is asleep", "", None)


def test_a_process_state_that_nobody_knows_is_read_all_the_same() -> None:
    assert msgspec.convert({"pid": 7, "state": "I"}, Process).state is ProcessState.OTHER
