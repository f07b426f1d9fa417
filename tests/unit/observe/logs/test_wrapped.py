"""Wrapped lines are put together, and nothing else is."""

from unstuck.observe.logs.wrapped import unwrap

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
