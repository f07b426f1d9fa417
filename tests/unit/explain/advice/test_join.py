"""One place joins the situation's advice with a record's: nothing twice, nothing against itself."""

from pathlib import Path

from msgspec.structs import replace

from unstuck.explain.advice.advice import texts
from unstuck.explain.advice.join import MOST_DO, MOST_DONT, record_first, with_record
from unstuck.explain.kb.check import gather
from unstuck.explain.kb.schema import DeadEnd, Record, Text, Workaround

BASE = gather([Path(__file__).parents[1] / "kb" / "records"]).records[0]


def record(do: tuple[str, ...] = (), dont: tuple[str, ...] = ()) -> Record:
    helps = tuple(Workaround(Text(text, "\u505a"), Text("", "")) for text in do)
    fails = tuple(DeadEnd(Text(text, "\u522b"), Text("", "")) for text in dont)
    return replace(BASE, workarounds=helps, dead_ends=fails)


def test_record_follows_the_situation():
    do, dont = with_record(["resume rank 2"], ["wait"], record(("Pin the driver",), ("Reboot",)))

    assert do == ("resume rank 2", "Pin the driver")
    assert dont == ("wait", "Reboot")


def test_what_is_known_is_not_said_again():
    do, dont = with_record(
        ["on host3: `dmesg -T | grep -i 'killed process'`"],
        ["do not raise the timeout: rank 2 would not arrive"],
        record(("Look into dmesg for the kill",), ("Increase the timeout to two hours",)),
    )
    assert len(do) == 1
    assert len(dont) == 1


def test_what_is_advised_against_is_not_advised():
    do, dont = with_record(
        ["set NCCL_P2P_DISABLE=1"],
        ["do not raise the timeout: rank 2 would not arrive"],
        record(("Increase the timeout",), ("Set NCCL_P2P_DISABLE=1 and forget it",)),
    )
    assert do == ("set NCCL_P2P_DISABLE=1",)
    assert dont == ("do not raise the timeout: rank 2 would not arrive",)


def test_logs_take_the_record_first_and_the_situation_where_it_is_silent():
    do, dont = record_first(["general"], ["in general"], record(("Own",)), "en")

    assert do == ("Own",)
    assert dont == ("in general",)
    assert record_first(["general"], [], None, "zh") == (("general",), ())


def test_condition_of_a_step_is_said():
    step = Workaround(
        Text("Drop the last batch", "\u4e22\u5f03"),
        Text("drop_last=True", "drop_last"),
        condition=Text("One rank ran out", "\u67d0\u4e2a rank \u5148\u7528\u5b8c"),
    )
    (do,), _ = record_first([], [], replace(BASE, workarounds=(step,), dead_ends=()), "en")
    (zh,), _ = record_first([], [], replace(BASE, workarounds=(step,), dead_ends=()), "zh")

    assert do == "Drop the last batch (one rank ran out): drop_last=True"
    assert zh.startswith("\u4e22\u5f03\uff08")


def test_it_stays_short():
    many = record(tuple(f"step{n * 'x'}" for n in range(9)), tuple("abcdefghi"))
    do, dont = with_record([], [], many)

    assert (len(do), len(dont)) == (MOST_DO, MOST_DONT)


def test_no_situation_loses_anything_to_a_record():
    tables, shared = texts()
    for advice in tables.values():
        do, dont = (
            [shared[line][0] if isinstance(line, str) else line[0] for line in lines]
            for lines in (advice.do, advice.dont)
        )
        joined = with_record(do, dont, None)
        assert joined == (tuple(do[:MOST_DO]), tuple(dont[:MOST_DONT]))
