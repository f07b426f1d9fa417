"""The table is read from left to right: how it stands, what, and below what to do."""

import io

from unstuck.model.health import Check, Rating
from unstuck.show.doctor_table import as_json, render, worst

CHECKS = (
    Check("memory", Rating.OK, "11 GiB of 24 GiB available"),
    Check("/dev/shm", Rating.BAD, "64 MiB: " + "too little " * 12, "docker run --shm-size=16g"),
    Check("clock", Rating.WARNING, "off\x1b[31m", "start chronyd", "node1"),
)


def test_it_fits_80_columns_and_says_what_to_do() -> None:
    shown = render(io.StringIO(), "node0", CHECKS)

    assert max(map(len, shown.splitlines())) <= 80
    assert "\x1b" not in shown
    assert shown.splitlines()[1] == "  ok       memory        11 GiB of 24 GiB available"
    assert "  1 /dev/shm: docker run --shm-size=16g" in shown
    assert "node1: off" in shown
    assert shown.endswith("1 bad, 1 doubtful\n")


def test_the_worst_rating_decides_and_what_is_unknown_is_no_fault() -> None:
    assert worst(CHECKS) is Rating.BAD
    assert worst([Check("a", Rating.UNKNOWN, "")]) is Rating.UNKNOWN
    assert "nothing wrong was found" in render(io.StringIO(), "a", CHECKS[:1])
    assert as_json(CHECKS, 1.0)["rating"] == "bad"
