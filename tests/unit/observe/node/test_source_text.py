"""Source lines are shown where they can be read, and nowhere else."""

from pathlib import Path

from unstuck.observe.node import source_text


def test_line_is_stripped_and_counted_from_one(tmp_path: Path):
    (tmp_path / "a.py").write_text("first\n    second  \n")
    file = str(tmp_path / "a.py")

    assert [source_text.line(file, n) for n in (0, 1, 2, 3, -1)] == ["", "first", "second", "", ""]


def test_what_cannot_be_read_is_empty(tmp_path: Path):
    assert source_text.line(str(tmp_path / "missing.py"), 1) == ""
    assert source_text.line("<frozen runpy>", 1) == ""
    assert source_text.line(str(tmp_path), 1) == ""


def test_long_lines_and_huge_files_are_bounded(tmp_path: Path):
    (tmp_path / "long.py").write_text("x" * 1000)
    (tmp_path / "huge.py").write_text("x = 1\n" * 400_000)

    assert source_text.line(str(tmp_path / "long.py"), 1) == "x" * 160
    assert source_text.line(str(tmp_path / "huge.py"), 1) == ""


def test_bytes_that_are_no_text_do_not_raise(tmp_path: Path):
    (tmp_path / "odd.py").write_bytes(b"caf\xe9 = 1\n")
    assert source_text.line(str(tmp_path / "odd.py"), 1) == "caf\ufffd = 1"
