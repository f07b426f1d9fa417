"""The timeouts of a run in its directory."""

from pathlib import Path

import pytest

from unstuck.collect import timeouts_file
from unstuck.errors import SettingsError
from unstuck.model.timeouts import JobSettings, Knob, Layer

JOB = JobSettings("4 ranks", (Knob("default process group", Layer.GROUP, 77.0),), ("gloo",))


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    assert timeouts_file.read(tmp_path) is None
    timeouts_file.write(tmp_path, JOB)
    assert timeouts_file.read(tmp_path) == JOB
    assert [path.name for path in tmp_path.iterdir()] == [timeouts_file.NAME]


def test_a_run_directory_that_is_gone_stops_nobody(tmp_path: Path) -> None:
    timeouts_file.write(tmp_path / "gone", JOB)


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"settings": {"source": 1}}', '{"schema": "x/9", "settings": {"source": "s"}}'],
)
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, content: str) -> None:
    (tmp_path / timeouts_file.NAME).write_text(content)
    with pytest.raises(SettingsError, match=timeouts_file.NAME):
        timeouts_file.read(tmp_path)
