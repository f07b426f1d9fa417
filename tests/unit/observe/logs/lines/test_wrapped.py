"""Wrapped lines are put together, and nothing else is."""

import pytest

from unstuck.observe.logs.lines.wrapped import folded, is_cut, unwrap, whole

LONG = "[rank1]: " + " ".join(f"word{number}" for number in range(40)) + " end"


def wrap(text: str, width: int) -> str:
    return "\n".join(text[at : at + width] for at in range(0, len(text), width))


def test_a_wrapped_line_is_whole_again_and_the_next_keeps_its_number():
    text = "first\n" + wrap(LONG, 100) + "\nlast"
    lines = unwrap(text.encode()).decode().split("\n")
    assert lines[1] == LONG
    assert len(lines) == len(text.split("\n"))
    assert lines[-1] == "last"


def test_lines_of_equal_length_with_their_own_prefixes_stay_apart():
    text = "\n".join(f"[rank{n}]: " + "x" * 80 for n in range(5))
    assert unwrap(text.encode()) == text.encode()


def test_one_longest_line_is_not_wrapped():
    text = "x" * 100 + "\nnext line\n"
    assert unwrap(text.encode()) == text.encode()


def test_what_programs_write_is_left_alone():
    text = (LONG * 20 + "\n" + "goes on\n") * 3
    assert unwrap(text.encode()) == text.encode()


WORK = "[rank2]:[E x.cpp:629] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL("
REST = "SeqNum=4, OpType=BROADCAST, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800010 ms"


@pytest.mark.parametrize("at", [len(WORK) + 14, len(WORK) + 40, len(WORK) + 65, len(WORK) - 26])
def test_a_watchdogs_line_is_whole_wherever_it_was_cut(at: int):
    line = WORK + REST
    assert whole(line[:at], [line[at:], "next"]) == line


def test_three_pieces_are_put_together_too():
    line = WORK + REST
    first, rest = line[:100], line[100:]
    assert whole(first, [rest[:15], rest[15:], "next"]) == line


def test_a_whole_line_and_one_before_a_new_line_stay_as_they_are():
    assert not is_cut(WORK + REST)
    assert (
        whole(WORK + "SeqNum=4, OpTy", ["[rank3]:[E x.cpp:629] other"]) == WORK + "SeqNum=4, OpTy"
    )


def test_an_indented_piece_of_a_watchdogs_line_is_joined_by_one_space():
    line = whole(
        "[Rank 0] Watchdog caught collective operation timeout:", ["  WorkNCCL(SeqNum=3, "]
    )
    assert line == "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, "


def test_a_message_broken_by_hand_goes_on_where_the_next_line_is_indented():
    line = "[rank8] connecting: SO_ERROR: Connection refused,"
    assert folded(line, ["    remote=[127.0.0.1]:14215", "RuntimeError: x"]) == (
        "[rank8] connecting: SO_ERROR: Connection refused, remote=[127.0.0.1]:14215"
    )


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("ValueError: no such layer.", "    raised in a hook"),
        ("  exitcode  : -9 (pid: 77) of the first,", "  error_file: <N/A>"),
        ("failed to join the group", '    File "train.py", line 3, in main'),
        ("failed to join the group", "rank 3 goes on"),
    ],
    ids=["a sentence is over", "a table", "a frame", "not indented"],
)
def test_what_does_not_go_on_stays_apart(line: str, after: str):
    assert folded(line, [after]) == line
