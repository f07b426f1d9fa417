"""Lines cut out of a chunk of bytes."""

from unstuck.observe.logs.lines.pieces import LONGEST_PIECE, Lines, by_line, segment, text

DATA = b"one\ntwo ERROR\nthree\nfour ERROR ERROR\nfive"


def hits(data: bytes, word: bytes = b"ERROR") -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    at = data.find(word)
    while at >= 0:
        found.append((at + len(word), 0))
        at = data.find(word, at + 1)
    return found


def test_lines_with_hits_come_once_each_with_their_numbers():
    lines = Lines(DATA, first_line=10)
    found = [(lines.number(s), DATA[s:e], len(h)) for s, e, h in by_line(lines, hits(DATA))]
    assert found == [(11, b"two ERROR", 1), (13, b"four ERROR ERROR", 2)]
    assert lines.finish() == 14


def test_neighbours_of_the_first_and_the_last_line():
    lines = Lines(DATA, 1)
    assert lines.neighbours(0, 3) == ("", "one", "two ERROR")
    assert lines.neighbours(4, 13) == ("one", "two ERROR", "three")
    assert lines.neighbours(len(DATA) - 4, len(DATA)) == ("four ERROR ERROR", "five", "")


def test_what_follows_a_line_ends_with_the_chunk():
    assert list(Lines(DATA, 1).following(19)) == ["four ERROR ERROR", "five"]
    assert list(Lines(DATA, 1).following(len(DATA))) == []


def test_a_progress_bar_rewrites_its_line_and_only_the_hit_counts():
    data = b"10%|\r20%| ERROR\r30%|"
    ((end, _),) = hits(data)
    assert segment(data, 0, len(data), end) == b"20%| ERROR"


def test_an_endless_line_is_cut_around_the_hit():
    data = b"x" * LONGEST_PIECE + b"ERROR" + b"y" * LONGEST_PIECE
    ((end, _),) = hits(data)
    found = segment(data, 0, len(data), end)
    assert b"ERROR" in found
    assert len(found) == LONGEST_PIECE


def test_bytes_of_any_kind_become_text():
    assert text(b"caf\xe9") == "caf\ufffd"
