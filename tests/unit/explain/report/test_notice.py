"""A notice in words: calm, short, and with what is known of the rank that is late."""

from msgspec.structs import replace

from unstuck.explain.report import notice as words
from unstuck.model.life import Life, Sign
from unstuck.model.notice import Notice
from unstuck.model.verdict import Culprit, StuckOperation

RANK = Culprit(2, "node1", "is asleep", 4711, "/job/train.py", 26, "wait", "time.sleep(1)", 3.0)
STUCK = StuckOperation("all_reduce", 66, "0", 4, "default_pg", waiting=(0, 1, 3))
QUIET = Life(looked_for=8.0, quiet_for=8.0)
NOTICE = Notice((RANK,), (0, 1, 3), STUCK, 10.0, life=QUIET, judged_in=52.0)


def test_who_waits_for_whom_and_what_happens_next() -> None:
    assert words.begins(NOTICE) == [
        "rank 2 is asleep at train.py:26 (time.sleep(1)); ranks 0,1,3 wait in all_reduce number 66 "
        "of default_pg, 10 s so far",
        "no sign of life so far; a verdict follows in 52 s if none appears",
    ]


def test_signs_of_life_are_named() -> None:
    life = Life(8.0, 0.0, (Sign.CPU, Sign.NETWORK), cpu=0.8, network=12.3e6)
    assert words.begins(replace(NOTICE, life=life, judged_in=None))[1] == (
        "it works: 0.8 cores, network 12 MB/s"
    )


def test_half_of_the_timeout_is_a_warning() -> None:
    life = Life(900.0, 0.0, (Sign.IO,), io=2500)
    late = replace(NOTICE, life=life, judged_in=None, times_out_in=900.0)
    assert words.begins(late)[1] == ("torch gives up in 15 min; it works: reads and writes 2 kB/s")


def test_what_is_not_known_is_not_claimed() -> None:
    bare = Notice((replace(RANK, file="", line=0, code=""), replace(RANK, rank=5)))
    assert words.begins(bare) == [
        "ranks 2,5: each is asleep; the others wait, 0 s so far",
        "whether it works is not known yet",
    ]


def test_its_end_is_one_line() -> None:
    assert words.ends(NOTICE) == "rank 2 moved on after 10 s at train.py:26"
