"""Records are found by how their failure looks live; a sign must fit in everything it names."""

import pytest
from msgspec.structs import replace

from scenes import one_sleeps
from unstuck.explain.kb.check import gather
from unstuck.explain.kb.live_signs import KINDS, fitting
from unstuck.explain.kb.read import BUILT_IN
from unstuck.explain.kb.rules import live_signs
from unstuck.explain.kb.schema import LiveSign, Record, Text
from unstuck.model.doing import Activity, Asleep, During, Killed, LeftLoop, Resource, Starved
from unstuck.model.verdict import Cause, Confidence, Culprit, StuckOperation, Verdict

RECORD = next(r for r in gather([BUILT_IN]).records if r.id == "gloo/recv-timeout")
LOOKS = Text("looks", "\u770b")


def record(name: str, **fields: object) -> Record:
    sign = LiveSign((Cause.PROCESS_CRASH,), LOOKS, **fields)  # pyright: ignore[reportArgumentType]
    return replace(RECORD, id=f"gloo/{name}", live=(sign,))


def ids(verdict: Verdict, *records: Record) -> list[str]:
    return [one.id for one in fitting(verdict, one_sleeps().snapshot(), records)]


def verdict(activity: Activity | None = None, **fields: object) -> Verdict:
    culprit = Culprit(2, "host0", "did", function="save_all", activity=activity)
    made = Verdict(Cause.PROCESS_CRASH, Confidence.LIKELY, (culprit,), (), "")
    return replace(made, **fields)


@pytest.mark.parametrize(
    ("activity", "kind", "fits"),
    [
        (Killed(signal="SIGKILL"), "killed", True),
        (Killed(signal="SIGKILL"), "killed:SIGKILL", True),
        (Killed(signal="SIGSEGV"), "killed:SIGKILL", False),
        (Killed(signal="SIGSEGV", how=During.LINE), "killed:line", True),
        (LeftLoop(loop="a.py:3", instead=Asleep()), "asleep", True),
        (Starved(how=Resource.QUOTA, share=0.5), "starved:quota", True),
        (None, "killed", False),
    ],
)
def test_activity_is_named_by_its_kind_and_what_it_says(
    activity: Activity | None, kind: str, fits: bool
):
    assert (ids(verdict(activity), record("one", doing=(kind,))) != []) is fits


def test_sign_needs_everything_it_names_and_demanding_ones_come_first():
    stuck = StuckOperation("gloo:all_reduce", 1, "0", 4)
    plain, more = record("plain"), record("more", ops=("all_reduce",), first=True)
    wrong = record("wrong", ops=("all_reduce",), code=("evaluate",))
    right = record("right", ops=("all_reduce",), code=("save",), first=True)

    assert ids(verdict(stuck=stuck), plain, more, wrong, right) == [
        "gloo/right",
        "gloo/more",
        "gloo/plain",
    ]
    assert ids(verdict(), plain, more) == ["gloo/plain"]
    assert ids(verdict(cause=Cause.UNEVEN_WORK), plain) == []


def test_backend_is_that_of_the_group_that_waits():
    stuck = StuckOperation("all_reduce", 3, "0", 4)

    assert ids(verdict(stuck=stuck), record("one", backends=("gloo",)))
    assert not ids(verdict(stuck=stuck), record("one", backends=("nccl",)))


def test_checker_refuses_signs_that_nothing_can_fit():
    bad = replace(RECORD, live=(LiveSign((), LOOKS, doing=("dozes",), ops=("All_Reduce",)),))

    assert [field for field, _ in live_signs(bad)] == [
        "live[0].causes",
        "live[0].doing",
        "live[0].ops",
    ]
    assert "waits-for-lock" in KINDS
