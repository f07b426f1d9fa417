"""The environment of the world lab is made once, whole, and again when its content changes."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from unstuck.errors import LabError
from unstuck.lab import libraries


class Installed:
    def __init__(self) -> None:
        self.packages: list[tuple[str, ...]] = []

    def __call__(self, python: Path, packages: Sequence[str]) -> None:
        assert python.exists()
        self.packages.append(tuple(packages))


def test_it_is_made_once_with_torch_first_and_held(tmp_path: Path):
    installed = Installed()
    python = libraries.prepare(tmp_path / "world", installed)

    assert installed.packages[0] == (libraries.TORCH,)
    assert set(installed.packages[1]) == {libraries.TORCH, *libraries.LIBRARIES}
    assert libraries.prepare(tmp_path / "world", installed) == python
    assert len(installed.packages) == 2


def test_one_that_was_interrupted_is_made_again(tmp_path: Path):
    def fail(python: Path, packages: Sequence[str]) -> None:
        raise LabError("no network")

    with pytest.raises(LabError, match="no network"):
        libraries.prepare(tmp_path / "world", fail)
    installed = Installed()
    libraries.prepare(tmp_path / "world", installed)
    assert len(installed.packages) == 2


def test_a_package_that_does_not_exist_is_said_to_be_missing(tmp_path: Path):
    python = Path(libraries.prepare(tmp_path / "world", Installed()))
    with pytest.raises(LabError, match="pip could not install"):
        libraries._pip(python, ["no-such-package"])


def test_it_is_kept_where_caches_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert libraries.home() == tmp_path / "unstuck" / "world"
