"""`unstuck.toml` is found where it is asked for or lies, and errors name the file."""

from pathlib import Path

import pytest

from unstuck import config
from unstuck.errors import ConfigError


def test_file_in_the_folder_is_found_unless_another_is_asked_for(tmp_path: Path):
    assert config.find(folder=tmp_path) is None
    (tmp_path / "unstuck.toml").touch()

    assert config.find(folder=tmp_path) == tmp_path / "unstuck.toml"
    assert config.find(Path("other.toml"), tmp_path) == Path("other.toml")


def test_table_is_read_and_may_be_missing(tmp_path: Path):
    path = tmp_path / "unstuck.toml"
    path.write_text("[policy]\nunknown = ['report']\n")

    assert config.table(path, "policy") == {"unknown": ["report"]}
    assert config.table(path, "other") == {}
    assert config.table(None, "policy") == {}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"policy = 3", "policy is not a table"),
        (b"[policy", "is not TOML"),
        (b"\xff", "is not TOML"),
        (b"policy = " + b"[" * 5000, "is not TOML"),
    ],
)
def test_file_that_makes_no_sense_is_refused(tmp_path: Path, content: bytes, why: str):
    path = tmp_path / "unstuck.toml"
    path.write_bytes(content)

    with pytest.raises(ConfigError, match=why):
        config.table(path, "policy")


def test_file_that_is_not_there_is_said(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"cannot read .*: no such file"):
        config.table(tmp_path / "typo.toml", "policy")
