"""A file that others read appears whole or not at all."""

from pathlib import Path

import pytest

from unstuck.files import write_whole


def test_old_content_stays_until_the_new_is_whole(tmp_path: Path):
    path = tmp_path / "a.json"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert [one.name for one in tmp_path.iterdir()] == ["a.json"]


def test_directory_that_is_gone_is_an_error(tmp_path: Path):
    with pytest.raises(OSError, match="No such file"):
        write_whole(tmp_path / "gone" / "a.json", b"one")
