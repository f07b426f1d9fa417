"""A rank writes down what it knows after every stage, whatever hangs then."""

from pathlib import Path

import msgspec
import pytest

from unstuck.launch.rehearsal import program
from unstuck.model.rehearsal import RankReport


@pytest.fixture
def rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> program.Rank:
    for name, value in ((program.FOLDER, str(tmp_path)), ("RANK", "3"), ("WORLD_SIZE", "8")):
        monkeypatch.setenv(name, value)
    return program.Rank()


def test_what_is_known_is_on_disk(rank: program.Rank, tmp_path: Path) -> None:
    rank.report.problems.append("connecting to the store: refused")
    rank.write()

    found = msgspec.json.decode((tmp_path / "rank-3.json").read_bytes(), type=RankReport)
    assert (found.rank, found.world_size, found.stage) == (3, 8, "start")
    assert found.problems == ["connecting to the store: refused"]
    assert "torch" in found.versions


def test_an_interface_that_is_not_there_is_a_problem_and_another_way_is_found(
    rank: program.Rank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "ib9")
    rank.report.host = "no-such-host.invalid"
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")

    assert rank._address() == "127.0.0.1"
    assert rank.report.problems[0] == "GLOO_SOCKET_IFNAME=ib9: no such interface here"
    assert rank.report.problems[1].startswith("no-such-host.invalid cannot be resolved")


def test_groups_double_up_to_the_job() -> None:
    assert program._widths(8) == [2, 4]
    assert program._widths(6) == [2]
    assert program._widths(2) == []
