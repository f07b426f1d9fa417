"""What a path stands for, and what a file's name says about rank and host."""

import os
from pathlib import Path

import pytest

from unstuck.errors import LogNotFoundError
from unstuck.observe.logs.files.sources import describe, find


@pytest.mark.parametrize(
    ("path", "rank", "host", "attempt"),
    [
        ("logs/none_x1/attempt_1/3/stderr.log", 3, "", 1),
        ("logs/node7/none_x1/attempt_0/0/stdout.log", 0, "node7", 0),
        ("slurm-4711.node12.5.out", 5, "node12", 0),
        ("rank_3.log", 3, "", 0),
        ("worker-12.log.gz", 12, "", 0),
        ("out/rank=7/log.txt", None, "", 0),
        ("train.log", None, "", 0),
        ("slurm-4711.out", None, "", 0),
        ("train-2026-11-15.log", None, "", 0),
    ],
)
def test_a_name_says_its_rank_only_where_it_means_one(
    path: str, rank: int | None, host: str, attempt: int
):
    source = describe(path)
    assert (source.rank, source.host, source.attempt) == (rank, host, attempt)


def test_numbers_are_ranks_when_the_files_count_from_zero(tmp_path: Path):
    for number in (0, 1, 2, 10):
        (tmp_path / f"out.{number}.txt").write_text("x\n")
        (tmp_path / f"log_{number % 3}.txt").write_text("x\n")
    found = {Path(s.path).name: s.rank for s in find([str(tmp_path)])}
    assert [found[f"log_{n}.txt"] for n in (0, 1, 2)] == [0, 1, 2]
    assert found["out.10.txt"] is None, "0,1,2,10 is no count of ranks"


def test_a_directory_is_walked_in_the_order_people_count(tmp_path: Path):
    for name in ("rank_10.log", "rank_2.log", ".hidden", "model.pt"):
        (tmp_path / name).write_text("x\n")
    assert [Path(s.path).name for s in find([str(tmp_path)])] == ["rank_2.log", "rank_10.log"]


def test_a_path_that_is_not_there_is_the_users_to_put_right():
    with pytest.raises(LogNotFoundError, match=r"nothing is at no/such\.log"):
        find(["no/such.log"])


def test_an_empty_directory_is_said_to_be_empty(tmp_path: Path):
    with pytest.raises(LogNotFoundError, match="no log files are below"):
        find([str(tmp_path)])


def test_ten_thousand_files_are_found_once_each(tmp_path: Path):
    for number in range(10_000):
        os.close(os.open(tmp_path / f"rank_{number}.log", os.O_CREAT | os.O_WRONLY))
    found = find([str(tmp_path), str(tmp_path / "rank_7.log")])
    assert [source.rank for source in found] == list(range(10_000))
