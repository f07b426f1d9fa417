"""Dumps are found by name and read whatever 2.x wrote them; the rest is told file by file."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from recorded import dump, entry, put, put_json
from unstuck.errors import DumpDamagedError, DumpError, DumpUnsafeError
from unstuck.observe.dumps.files import MOST_BYTES, find, rank_of, read, read_file

EVIL = b"cos\nsystem\n(S'id'\ntR."


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("nccl_trace_rank_0", 0),
        ("comm_lib_trace_rank_1023", 1023),
        ("trace_3.json", 3),
        ("rank12.pickle", 12),
        ("v2.fr.7", 7),
        ("run5_rank2.json", 2),
        ("trace", None),
        ("trace_20261115", None),
    ],
)
def test_the_rank_is_the_last_number_of_the_name(name: str, rank: int | None):
    assert rank_of(Path(name)) == rank


def test_json_and_pickle_of_the_same_dump_are_the_same(tmp_path: Path):
    content = dump(entry(1), entry(2), pg_status={"0": {"last_enqueued_collective": 2}})
    as_text = json.loads(json.dumps(content))
    as_text["pg_status"] = {"0": {"last_enqueued_collective": "2"}}  # JSON has numbers as text
    put_json(tmp_path, {0: as_text})
    put(tmp_path, {0: content})

    one, other = read([tmp_path]).dumps

    assert one.content == other.content
    assert one.content.pg_status["0"]["last_enqueued_collective"] == 2


@pytest.mark.parametrize("version", ["2.1", "2.2", "2.4", "2.7", "2.9", "2.10"])
def test_fields_that_a_version_lacks_are_not_needed(version: str, tmp_path: Path):
    old = entry(1)
    for name in ("is_p2p", "timeout_ms", "input_dtypes", "output_dtypes", "time_created_ns"):
        del old[name]
    old["process_group"] = "0" if version == "2.1" else ["0", "default_pg"]
    content = dump(old, version=version)
    del content["pg_status"]
    (read_back,) = read([put(tmp_path, {0: content})]).dumps

    assert read_back.content.version == version
    assert read_back.content.entries[0].group == "0"


def test_fields_that_a_later_version_adds_do_no_harm(tmp_path: Path):
    content = dump(entry(1, new_field={"a": [1]}), comm_lib_version="2.27", nccl_comm_state={})
    assert read([put(tmp_path, {0: content})]).dumps[0].content.entries[0].op == "all_reduce"


def test_entries_are_missing_while_there_are_none(tmp_path: Path):
    content = dump()
    del content["entries"]
    assert read([put_json(tmp_path, {0: content})]).dumps[0].content.entries == ()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "cut short"),
        (b'{"version": "2.10", "entries": [{"pr', "cut short or damaged"),
        (b'{"version": "1.5"}', r"version 1.5 of the dump format; 2.x is known"),
        (b'{"version": "3.0"}', r"version 3.0"),
        (b'{"hello": 1}', "not a flight-recorder dump"),
        (b'{"version": "2.10", "entries": 5}', "not a flight-recorder dump"),
        (b"[" * 100_000, "cut short or damaged"),
        (b'{"version": "2.10", "pg_config": {"0": {"a": ' + b"[" * 100_000, "cut short or damaged"),
        (pickle.dumps([1, 2]), "not a flight-recorder dump"),
        (pickle.dumps({"version": "2.10", "entries": [1]}), "not a flight-recorder dump"),
        (pickle.dumps(dump(entry(1)), 2)[:200], "cut short or damaged"),
        (EVIL, "would load or call code"),
    ],
)
def test_a_single_file_that_cannot_be_read_says_why(content: bytes, words: str, tmp_path: Path):
    file = tmp_path / "trace_0"
    file.write_bytes(content)
    with pytest.raises(DumpError, match=words) as caught:
        read([file])
    assert "trace_0" in caught.value.message


def test_among_good_dumps_a_bad_one_is_told_and_its_rank_is_known(tmp_path: Path):
    put(tmp_path, {0: dump(entry(1)), 1: dump(entry(1))})
    (tmp_path / "trace_2").write_bytes(EVIL)

    reading = read([tmp_path])

    assert [one.rank for one in reading.dumps] == [0, 1]
    ((path, words),) = reading.problems
    assert path.name == "trace_2"
    assert "would load or call code" in words
    assert reading.refused == {2}


def test_a_bad_copy_beside_a_good_one_does_not_lose_the_rank(tmp_path: Path):
    put(tmp_path, {2: dump(entry(1))})
    (tmp_path / "trace_2.json").write_text("{")
    assert read([tmp_path]).refused == frozenset()


def test_if_all_are_hostile_the_error_is_of_that_kind(tmp_path: Path):
    for rank in range(5):
        (tmp_path / f"trace_{rank}").write_bytes(EVIL)
    with pytest.raises(DumpUnsafeError, match="none of 5 files can be read"):
        read([tmp_path])


def test_a_file_without_a_rank_in_its_name_says_how_to_name_it(tmp_path: Path):
    file = tmp_path / "dump.json"
    file.write_text(json.dumps(dump()))
    with pytest.raises(DumpDamagedError, match="does not say which rank") as caught:
        read([file])
    assert "trace_3" in caught.value.hint


def test_a_file_of_absurd_size_is_not_read(tmp_path: Path):
    file = tmp_path / "trace_0"
    with file.open("wb") as handle:
        handle.truncate(MOST_BYTES + 1)
    with pytest.raises(DumpDamagedError, match="larger than 256 MB"):
        read_file(file)


def test_other_files_of_a_directory_are_left_alone(tmp_path: Path):
    put(tmp_path, {0: dump(entry(1)), 11: dump(entry(1)), 2: dump(entry(1))})
    for name, text in {"train_0.log": "hello", "trace_1.txt": "{}", "model_3.pt": "PK"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "folder_4").mkdir()
    assert [path.name for path in find([tmp_path])] == ["trace_0", "trace_2", "trace_11"]


def test_an_empty_directory_says_what_was_looked_for(tmp_path: Path):
    with pytest.raises(DumpError, match="no flight-recorder dump here") as caught:
        read([tmp_path])
    assert "trace_0" in caught.value.hint


def test_a_prefix_with_dots_is_a_name_like_any_other(tmp_path: Path):
    content: dict[int, Any] = {0: dump(entry(1)), 1: dump(entry(1))}
    put(tmp_path, content, prefix="job.v1.rank")
    assert [one.rank for one in read([tmp_path]).dumps] == [0, 1]


def test_other_json_among_dumps_is_neither_a_problem_nor_a_rank(tmp_path: Path):
    put(tmp_path, {0: dump(entry(1))})
    (tmp_path / "config_7.json").write_text('{"lr": 1}')
    (tmp_path / "trace_1").write_bytes(pickle.dumps({"version": "2.10", "entries": 5}))
    reading = read([tmp_path])
    assert [path.name for path, _ in reading.problems] == ["trace_1"]
    assert reading.refused == {1}


def test_dumps_may_lie_in_one_directory_a_node(tmp_path: Path):
    put(tmp_path / "node0", {0: dump(entry(1)), 1: dump(entry(1))})
    put(tmp_path / "node1", {2: dump(entry(1)), 3: dump(entry(1))})
    assert [one.rank for one in read([tmp_path]).dumps] == [0, 1, 2, 3]
