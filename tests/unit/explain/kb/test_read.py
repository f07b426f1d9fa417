"""Records come from our directory, from users' directories and from plug-ins; they are strict."""

import os
import shutil
from pathlib import Path

import pytest

from unstuck.errors import RecordError
from unstuck.explain.kb import read


def test_later_directories_come_after_the_built_in_one(tmp_path: Path) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    for path in (one, two, three):
        path.mkdir()
    environ = {"UNSTUCK_KB": f"{one}{os.pathsep}{two}"}

    assert read.directories([three], environ) == [read.BUILT_IN, one, two, three]


def test_missing_directory_is_said(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="no directory of records at"):
        read.directories([tmp_path / "typo"], {})


def test_installed_plug_in_is_read(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = Path(shutil.copytree(directory, tmp_path / "site" / "acme" / "records"))
    (package.parent / "__init__.py").touch()
    about = tmp_path / "site" / "acme-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[unstuck.records]\nacme = acme.records\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))

    assert read.plug_ins() == [package]


def test_plug_in_that_names_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "acme-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[unstuck.records]\nacme = acme_is_not_there\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(RecordError, match="acme_is_not_there is installed but is not a package"):
        read.plug_ins()


def test_only_files_are_records(directory: Path, tmp_path: Path) -> None:
    mine = Path(shutil.copytree(directory, tmp_path / "mine"))
    os.mkfifo(mine / "nccl" / "pipe.toml")
    (mine / "nccl" / "folder.toml").mkdir()
    (mine / "nccl" / "README.md").touch()

    assert [read.expected_id(path, mine) for path in read.files(mine)] == [
        "gloo/monitored-barrier",
        "nccl/watchdog",
        "pytorch/barrier-timeout",
    ]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"id = ", "Invalid value"),
        (b"id = 'a/b'", "missing required field"),
        (b"\xff", "can't decode|invalid"),
        (b"id = " + b"[" * 5000, "recursion"),
    ],
)
def test_file_that_is_no_record_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(content)

    with pytest.raises(RecordError, match=why):
        read.read(path)


def test_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="cannot be read: Is a directory"):
        read.read(tmp_path)
