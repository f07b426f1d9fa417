"""`unstuck kb` lists, shows, searches, checks, exports and drafts records."""

import io
import json
import shutil
from pathlib import Path

import pytest

from unstuck.show.cli.main import main

Capture = pytest.CaptureFixture[str]
RECORDS = Path(__file__).parents[2] / "explain" / "kb" / "records"


@pytest.fixture(autouse=True)
def sample_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unstuck.explain.kb.read.BUILT_IN", RECORDS)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("UNSTUCK_KB", raising=False)


def mine(tmp_path: Path, before: str, after: str) -> Path:
    """Copy the samples with one record changed; a copy replaces the built-in of the same id."""
    shutil.copytree(RECORDS, tmp_path / "mine")
    path = tmp_path / "mine" / "gloo" / "monitored-barrier.toml"
    path.write_text(path.read_text().replace(before, after))
    return path


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ([], ["gloo/monitored-barrier", "nccl/watchdog", "pytorch/barrier-timeout"]),
        (["--tier", "reported"], ["nccl/watchdog"]),
        (["--role", "root"], ["gloo/monitored-barrier", "pytorch/barrier-timeout"]),
        (["--domain", "gloo"], ["gloo/monitored-barrier"]),
        (["--domain", "gloo", "--role", "harmless"], []),
    ],
)
def test_list_is_filtered(capsys: Capture, options: list[str], ids: list[str]) -> None:
    assert main(["kb", "list", *options, "--json"]) == 0
    assert [record["id"] for record in json.loads(capsys.readouterr().out)] == ids

    assert main(["kb", "list", *options]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ids


def test_show_takes_the_end_of_an_id(capsys: Capture) -> None:
    assert main(["kb", "show", "watchdog"]) == 0
    assert capsys.readouterr().out.startswith("# nccl/watchdog\n")


def test_show_in_chinese_and_as_json(capsys: Capture) -> None:
    assert main(["kb", "show", "nccl/watchdog", "--lang", "zh"]) == 0
    assert "集合通信超时" in capsys.readouterr().out

    assert main(["kb", "show", "nccl/watchdog", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["role"] == "either"


def test_show_of_an_unknown_id_suggests_one(capsys: Capture) -> None:
    assert main(["kb", "show", "nccl/watchdgo"]) == 2
    assert capsys.readouterr().err == (
        "unstuck: there is no record `nccl/watchdgo`\n  did you mean nccl/watchdog?\n"
    )


def test_search_finds_by_words_and_says_when_nothing_fits(capsys: Capture) -> None:
    assert main(["kb", "search", "monitored", "barrier", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["id"] == "gloo/monitored-barrier"

    assert main(["kb", "search", "xylophone"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "no record matches; start one with `unstuck kb draft`\n"


def test_check_counts_what_it_looked_at(capsys: Capture) -> None:
    assert main(["kb", "check"]) == 0
    assert capsys.readouterr().out == (
        "3 records (1 reproduced, 1 reported, 1 unverified); "
        "4 lines that must match, 2 that must not: no problems\n"
    )


def test_check_names_file_field_and_reason(tmp_path: Path, capsys: Capture) -> None:
    path = mine(tmp_path, 'why.zh = "到不了这个屏障的进程，也到不了下一个。"', 'why.zh = ""')
    assert main(["kb", "check", str(tmp_path / "mine")]) == 1
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == f"{path}:dead_ends[0].why.zh: is empty"
    assert last.endswith(": 1 problem")

    assert main(["kb", "check", str(tmp_path / "mine"), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["problems"] == [
        {"file": str(path), "field": "dead_ends[0].why.zh", "message": "is empty"}
    ]
    assert found["summary"]["must_match"] == 4


def test_check_of_a_directory_that_is_not_there(capsys: Capture, tmp_path: Path) -> None:
    assert main(["kb", "check", str(tmp_path / "typo")]) == 2
    assert "no directory of records" in capsys.readouterr().err


def test_export_writes_pages_and_says_where(tmp_path: Path, capsys: Capture) -> None:
    assert main(["kb", "export", str(tmp_path / "site")]) == 0
    assert capsys.readouterr().out == f"3 records: {tmp_path / 'site' / 'index.html'}\n"
    assert (tmp_path / "site" / "gloo" / "monitored-barrier.html").is_file()


def test_draft_takes_a_line_or_stdin(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["kb", "draft", "--line", "the shard 7 is short by 3", "--id", "data/short"]) == 0
    given = capsys.readouterr().out
    assert "id = 'data/short'" in given

    stdin = io.TextIOWrapper(io.BytesIO(b"\n\nthe shard 7 is short by 3\nmore\n"))
    monkeypatch.setattr("sys.stdin", stdin)
    assert main(["kb", "draft", "--id", "data/short"]) == 0
    assert capsys.readouterr().out == given


def test_draft_of_nothing_is_a_usage_error(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"  \n")))

    assert main(["kb", "draft"]) == 2
    assert "give --line, or pipe one in" in capsys.readouterr().err


def test_records_go_out_as_json_and_come_back(tmp_path: Path, capsys: Capture) -> None:
    out, back, again = (tmp_path / name for name in ("out", "back", "again"))
    assert main(["kb", "export", "--format", "record-json", str(out)]) == 0
    files = sorted(path for path in out.rglob("*.json"))
    assert len(files) == 3
    every = tmp_path / "all.json"
    every.write_text(json.dumps([json.loads(path.read_text()) for path in files]))

    assert main(["kb", "import", str(every)]) == 2
    assert "give --into DIR" in capsys.readouterr().err
    assert main(["kb", "import", str(every), "--into", str(back)]) == 0
    assert capsys.readouterr().out == f"3 records: {back}\n"
    assert main(["kb", "export", "--kb", str(back), "--format", "record-json", str(again)]) == 0
    assert [path.read_text() for path in sorted(again.rglob("*.json"))] == [
        path.read_text() for path in files
    ]
    assert main(["kb", "import", str(every), "--into", str(back)]) == 2
    assert "exists already" in capsys.readouterr().err


def test_one_imported_record_is_printed(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "one.json"
    file.write_text('{"signature": "shard 7 is short", "regex": "shard \\\\d+ is short"}')

    assert main(["kb", "import", str(file)]) == 0
    assert "patterns = ['shard \\d+ is short']" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["{", "[1]", "{}"])
def test_what_is_no_record_is_an_error(tmp_path: Path, capsys: Capture, content: str) -> None:
    file = tmp_path / "bad.json"
    file.write_text(content)

    assert main(["kb", "import", str(file), "--into", str(tmp_path / "x")]) == 2
    assert main(["kb", "import", str(tmp_path / "none.json")]) == 2
    assert "cannot read" in capsys.readouterr().err
