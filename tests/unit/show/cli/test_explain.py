"""`unstuck explain` as a user meets it."""

import io
import json
from pathlib import Path

import pytest

from unstuck.explain.recall import knowledge
from unstuck.show.cli.main import main

GOLDEN = Path(__file__).parents[3] / "golden" / "logs"
BARRIER = "[rank1]: hello\n[Rank 0]: Ranks 2, 3 failed to pass monitoredBarrier in 2000 ms\n"


def test_a_problem_exits_with_1_and_names_the_ranks_the_lines_and_the_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "train.log"
    path.write_text(BARRIER)
    assert main(["explain", str(path)]) == 1
    out = capsys.readouterr().out
    assert "ranks  2,3: each did not arrive" in out
    assert f"{path}:2  (root)" in out.replace("\n           ", "")
    assert "unstuck kb show gloo/monitored-barrier" in " ".join(out.split())
    assert out.isascii()


def test_nothing_found_exits_with_0_and_says_how_much_was_read(
    capsys: pytest.CaptureFixture[str],
):
    assert main(["explain", str(GOLDEN / "healthy.log")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("no distributed failure was found in 36 lines of 1 file\n")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["explain"], "no log to explain"),
        (["explain", "no/such.log"], "nothing is at no/such.log"),
        (["explain", "--since", "yesterday", "x.log"], "cannot read the time yesterday"),
    ],
)
def test_bad_input_exits_with_2(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]):
    assert main(argv) == 2
    assert said in capsys.readouterr().err


def test_a_file_that_may_not_be_read_exits_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "train.log"
    path.write_text(BARRIER)

    def refuse(*_args: object, **_more: object) -> None:
        raise PermissionError(13, "Permission denied")

    knowledge()  # read already: from now on no file can be opened
    monkeypatch.setattr("unstuck.observe.logs.files.chunks.Path.open", refuse)
    assert main(["explain", str(path)]) == 2
    assert "Permission denied" in capsys.readouterr().err


def test_json_has_the_promised_fields(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "train.log"
    path.write_text(BARRIER)
    assert main(["explain", "--json", str(path)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "unstuck.verdict/1"
    verdict = found["verdict"]
    assert [culprit["rank"] for culprit in verdict["culprits"]] == [2, 3]
    evidence = verdict["evidence"][0]
    assert (evidence["file"], evidence["line"], evidence["role"]) == (str(path), 2, "root")
    assert {"cause", "confidence", "alternatives", "victims", "since", "records", "do", "dont"} <= (
        verdict.keys()
    )
    assert found["read"] == {"files": 1, "lines": 2, "bytes": len(BARRIER)}


def test_standard_input_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    stdin = io.TextIOWrapper(io.BytesIO(BARRIER.encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert main(["explain", "-"]) == 1
    assert "-:2  (root)" in capsys.readouterr().out


def test_chinese_is_shown_as_chinese(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "train.log"
    path.write_text(BARRIER)
    assert main(["explain", "--lang", "zh", str(path)]) == 1
    out = capsys.readouterr().out
    assert "先做" in out
    assert "\\u" not in out


def test_older_lines_can_be_left_out(tmp_path: Path):
    path = tmp_path / "train.log"
    path.write_text("2026-11-15 10:00:00 " + BARRIER.splitlines()[1] + "\n")
    assert main(["explain", "--since", "2026-11-15T09:00", str(path)]) == 1
    assert main(["explain", "--since", "2026-11-15T11:00", str(path)]) == 0


def test_batch_answers_every_line_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "logs.jsonl"
    rows = [{"id": "a", "log": BARRIER}, {"id": "b", "log": "fine\n"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["explain", "--batch", str(path)]) == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (first["id"], first["verdict"]["records"][0]) == ("a", "gloo/monitored-barrier")
    assert second == {"id": "b", "schema": "unstuck.verdict/1", "verdict": None}


def test_a_bad_batch_line_gets_its_own_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "logs.jsonl"
    path.write_text('not json\n{"id": "b", "log": "fine"}\n{"id": "c", "log": 3}\n')
    assert main(["explain", "--batch", str(path)]) == 2
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert found[0]["error"] == "line 1 is not an object with id and log"
    assert found[1]["verdict"] is None
    assert "not a string" in found[2]["error"]


def test_unknown_failures_are_shown_as_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "train.log"
    path.write_text("storage: ERROR shard 17 is damaged\n" * 3)
    assert main(["explain", str(path)]) == 0
    out = capsys.readouterr().out
    assert "not in the knowledge base" in out
    assert f"{path}:1  (3 times, first)" in out.replace("\n           ", "")
