"""One run over the logs: what is found, where, and what it costs."""

import tracemalloc
from collections.abc import Collection
from pathlib import Path

import pytest

from unstuck.errors import LogUnreadableError
from unstuck.model.logs import LogFact
from unstuck.observe.logs.files.sources import find
from unstuck.observe.logs.find.literals import Literal
from unstuck.observe.logs.reader import Found, Reader, Reading

ANCHORS = [Literal(b"op timed out:"), Literal(b"OpType=")]


def confirm(text: str, _anchors: Collection[int] | None) -> Found:
    """One record: `op timed out: OpType=X`."""
    _, found, tail = text.partition("op timed out: OpType=")
    return [("test/timeout", "root", {"op": tail.split()[0]})] if found and tail else []


def read(*paths: Path, since: float | None = None) -> Reading:
    return Reader(ANCHORS, confirm, since=since).read(find([str(path) for path in paths]))


def read_text(text: str | bytes) -> Reading:
    return Reader(ANCHORS, confirm).read_bytes(text if isinstance(text, bytes) else text.encode())


def test_a_match_has_its_file_line_rank_and_fields(tmp_path: Path):
    path = tmp_path / "train.log"
    path.write_text("one\ntwo\n[rank3]: op timed out: OpType=ALLREDUCE now\n")
    (match,) = read(path).logs.matches
    assert (match.line.file, match.line.line, match.line.rank) == (str(path), 3, 3)
    assert match.fields == {"op": "ALLREDUCE"}


def test_line_numbers_hold_over_many_chunks(tmp_path: Path):
    path = tmp_path / "train.log"
    filler = "x" * 200 + "\n"
    path.write_text(filler * 50_000 + "op timed out: OpType=A\n" + filler * 50_000)
    found = read(path)
    assert [match.line.line for match in found.logs.matches] == [50_001]
    assert found.lines == 100_001


def test_colours_windows_line_ends_and_bad_bytes_do_not_hide_a_match():
    found = read_text(b"caf\xe9\r\n\x1b[31m[rank1]: op timed out: OpType=A\x1b[0m\r\n")
    (match,) = found.logs.matches
    assert (match.line.text, match.line.rank) == ("[rank1]: op timed out: OpType=A", 1)


def test_a_bar_rewritten_in_place_is_not_part_of_the_message():
    bars = "".join(f"Map: {n}%|#| {n}/100 [00:01<00:09, 9.9 examples/s]\r" for n in range(99))
    found = read_text(bars + "[rank1]: op timed out: OpType=A\n")
    (match,) = found.logs.matches
    assert match.line.text == "[rank1]: op timed out: OpType=A"
    assert {phase.fact for phase in found.logs.phases} == {LogFact.PREPARING}


@pytest.mark.parametrize(
    "text",
    [
        "[rank1]: op timed out: \nOpType=ALLREDUCE now",
        "[rank1]: op timed out: OpType=\nALLREDUCE now",
    ],
)
def test_a_line_that_a_terminal_wrapped_is_put_together(text: str):
    assert read_text(text).logs.matches[0].fields == {"op": "ALLREDUCE"}


def test_a_cut_last_line_is_still_read():
    assert len(read_text("x\nop timed out: OpType=A").logs.matches) == 1


def test_nothing_in_gives_nothing_out(tmp_path: Path):
    empty = tmp_path / "empty.log"
    empty.touch()
    found = read(empty)
    assert (found.logs.matches, found.unknown, found.lines, found.files) == ((), [], 0, 1)


def test_older_lines_are_left_out(tmp_path: Path):
    path = tmp_path / "train.log"
    path.write_text(
        "2026-11-15 10:00:00 op timed out: OpType=OLD\n"
        "2026-11-15 12:00:00 op timed out: OpType=NEW\n"
    )
    eleven = 1794740400.0
    assert [m.fields["op"] for m in read(path, since=eleven).logs.matches] == ["NEW"]


def test_unknown_failures_are_clustered_and_known_ones_are_not():
    text = "".join(f"[rank{n}]: ValueError: shard {n} is bad\n" for n in range(4))
    found = read_text(text + "op timed out: OpType=A ERROR\n")
    (cluster,) = found.unknown
    assert (cluster.exception, cluster.count, cluster.ranks) == ("ValueError", 4, [0, 1, 2, 3])


def test_a_flood_of_one_line_is_bounded(tmp_path: Path):
    path = tmp_path / "train.log"
    path.write_text("[rank1]: op timed out: OpType=A\nERROR in step\n" * 30_000)
    found = read(path)
    assert 1 <= len(found.logs.matches) <= 5
    assert [cluster.template for cluster in found.unknown] == ["ERROR in step"]
    assert found.lines == 60_000


def test_one_unreadable_file_of_several_is_noted(tmp_path: Path):
    good, bad = tmp_path / "rank_0.log", tmp_path / "rank_1.log"
    good.write_text("op timed out: OpType=A\n")
    bad.write_bytes(b"\x1f\x8bnot gzip at all")
    found = read(good, bad)
    assert len(found.logs.matches) == 1
    assert "rank_1.log" in found.notes[0]
    with pytest.raises(LogUnreadableError):
        read(bad)


def test_an_overlong_line_is_cut_and_said(tmp_path: Path):
    path = tmp_path / "train.log"
    path.write_bytes(b"y" * (6 << 20) + b"\nop timed out: OpType=A\n")
    found = read(path)
    assert [match.line.line for match in found.logs.matches] == [2]
    assert "was cut at" in found.notes[0]


def test_memory_does_not_grow_with_the_file(tmp_path: Path):
    path = tmp_path / "train.log"
    with path.open("w") as file:
        for number in range(64):
            file.write(f"[rank{number}]: step {number} loss 2.0\n" * 30_000)
    tracemalloc.start()
    read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert path.stat().st_size > 48 << 20
    assert peak < 40 << 20


def test_ranks_and_world_size_come_from_the_lines():
    found = read_text("world_size=8\n[rank2]: hello\n[rank5]: op timed out: OpType=A\n")
    assert (found.logs.world_size, found.logs.ranks) == (8, (2, 5))
    assert found.logs.distributed


def test_of_a_long_line_the_part_around_the_match_is_kept():
    (match,) = read_text("[rank1]: " + "x" * 5000 + " op timed out: OpType=A").logs.matches
    assert "op timed out: OpType=A" in match.line.text
    assert len(match.line.text) <= 600
    assert match.line.rank == 1
