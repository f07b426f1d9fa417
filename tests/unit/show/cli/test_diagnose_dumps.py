"""`unstuck diagnose` on PyTorch's own dumps: the verdict, what was missing, and clear errors."""

import json
import shutil
from pathlib import Path

import pytest

from recorded import dump, entry, put, started
from unstuck.show.cli.main import main

Capture = pytest.CaptureFixture[str]
GOLDEN = Path(__file__).parents[3] / "golden" / "dumps"
EVIL = b"cos\nsystem\n(S'id'\ntR."


def test_a_directory_of_dumps_gives_the_verdict(capsys: Capture):
    assert main(["diagnose", str(GOLDEN / "wrong-op")]) == 1
    out = capsys.readouterr().out
    assert "collective-mismatch" in out
    assert "rank 2" in out
    assert "write_dumps.py" in out


def test_files_may_be_given_one_by_one(capsys: Capture):
    files = [str(GOLDEN / "absent" / f"trace_{rank}.json") for rank in range(4)]
    assert main(["diagnose", "--json", *files]) == 1
    verdict = json.loads(capsys.readouterr().out)["verdict"]
    assert [one["rank"] for one in verdict["culprits"]] == [2]
    assert verdict["do"]


def test_healthy_dumps_exit_with_0(capsys: Capture):
    assert main(["diagnose", str(GOLDEN / "healthy")]) == 0
    assert capsys.readouterr().out == "nothing is wrong in the dumps of 4 ranks\n"


def test_healthy_dumps_as_json_say_null(capsys: Capture):
    assert main(["diagnose", "--json", str(GOLDEN / "healthy")]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] is None


def test_what_was_missing_stands_beside_the_verdict_and_in_it(tmp_path: Path, capsys: Capture):
    shutil.copytree(GOLDEN / "absent", tmp_path / "t")
    for file in (tmp_path / "t").glob("*.json"):
        file.unlink()
    (tmp_path / "t" / "trace_3").write_bytes(EVIL)
    assert main(["diagnose", "--json", str(tmp_path / "t")]) == 1

    captured = capsys.readouterr()
    assert "trace_3 is refused" in captured.err
    assert "no usable dump of 1 of 4 ranks: rank 3" in captured.err
    verdict = json.loads(captured.out)["verdict"]
    assert [one["rank"] for one in verdict["culprits"]] == [2]
    assert any("is refused" in item["text"] for item in verdict["evidence"])


def test_how_durations_are_counted_is_said(capsys: Capture):
    main(["diagnose", str(GOLDEN / "absent")])
    assert "durations count up to 60 s after the newest event" in capsys.readouterr().err


def test_dumps_of_different_versions_are_read_and_told(tmp_path: Path, capsys: Capture):
    put(tmp_path, {0: dump(entry(1), started(2), size=2, version="2.4")})
    put(tmp_path, {1: dump(entry(1), size=2)})
    assert main(["diagnose", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert "different versions" in err
    assert "2.4: rank 0; 2.10: rank 1" in err


def test_torchruns_error_files_are_quoted(tmp_path: Path, capsys: Capture):
    shutil.copytree(GOLDEN / "absent", tmp_path / "t")
    error = {"message": {"message": "ValueError: no such file\nmore", "extraInfo": {}}}
    (tmp_path / "t" / "2").mkdir()
    (tmp_path / "t" / "2" / "error.json").write_text(json.dumps(error))
    assert main(["diagnose", str(tmp_path / "t")]) == 1
    assert "2/error.json: ValueError: no such file\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (EVIL, "would load or call code"),
        (b'{"version": "2.10", "ent', "cut short or damaged"),
        (b'{"version": "1.3"}', "version 1.3"),
    ],
)
def test_a_file_that_cannot_be_read_exits_with_2(
    content: bytes, words: str, tmp_path: Path, capsys: Capture
):
    file = tmp_path / "trace_0"
    file.write_bytes(content)
    assert main(["diagnose", str(file)]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.out == ""


def test_several_paths_are_for_dumps_only(tmp_path: Path, capsys: Capture):
    assert main(["diagnose", str(tmp_path), str(tmp_path)]) == 2
    assert "several paths" in capsys.readouterr().err


def test_an_empty_directory_is_neither_bundle_nor_dumps(tmp_path: Path, capsys: Capture):
    assert main(["diagnose", str(tmp_path)]) == 2
    assert "is not an incident bundle" in capsys.readouterr().err
