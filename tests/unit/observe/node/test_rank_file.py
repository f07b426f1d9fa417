"""A file that a rank writes anew now and then."""

import os
from pathlib import Path

from unstuck.observe.node.rank_file import ChangingFile


def test_it_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.1.groups"
    file = ChangingFile(str(path))
    assert file.read() == {}

    path.write_text('{"a": 1}')
    first = file.read()
    assert first == {"a": 1}
    assert file.read() is first

    path.write_text('{"a": 2}')
    os.utime(path, (1, 1))
    assert file.read() == {"a": 2}


def test_what_cannot_be_read_leaves_the_last_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text('{"a": 1}')
    file = ChangingFile(str(path))
    file.read()
    path.write_text("{")
    os.utime(path, (1, 1))
    assert file.read() == {"a": 1}
    path.unlink()
    assert file.read() == {"a": 1}
