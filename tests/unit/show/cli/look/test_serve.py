"""`unstuck serve`: stored runs in a browser."""

from pathlib import Path

import pytest

from unstuck.show.cli.main import main


def test_a_run_without_an_incident_is_a_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["serve", str(tmp_path)]) == 2
    assert "holds none" in capsys.readouterr().err


def test_without_the_packages_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("unstuck.launch.webpage._NEEDS", ("no_such_package",))

    assert main(["serve", str(tmp_path)]) == 3
    assert "pip install 'unstuck[web]'" in capsys.readouterr().err
