"""What was once tried to make us fall silent, hang, take all memory, or act on a terminal.

One test for each that is small; the larger ones have files of their own: `test_own_bugs.py`,
`test_bounds.py`, `test_lineage.py`, `test_helpers.py`, `test_watchers.py`, and `fuzz/`.
"""

import errno
import logging
import os
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from clocks import FakeClock
from scenes import one_sleeps, verdict_of
from unstuck import durations
from unstuck.collect.accepting import EVERY, Rarely
from unstuck.console import shown
from unstuck.diagnose.logs import positions
from unstuck.errors import DumpDamagedError, LogUnreadableError
from unstuck.explain.kb import load as loading
from unstuck.explain.kb import regex
from unstuck.explain.kb.load import KnowledgeBase, load
from unstuck.explain.kb.match import Matcher
from unstuck.explain.report import machine, terminal
from unstuck.files import appended, whole_file, write_whole
from unstuck.model.bounds import MOST_RANKS
from unstuck.model.logs import LogReading
from unstuck.observe.dumps import files as dumps
from unstuck.observe.dumps.unpickle import loads
from unstuck.observe.logs.files import sources
from unstuck.observe.logs.files.chunks import chunks, open_log
from unstuck.observe.node import source_text
from unstuck.show.cli.main import main

ESCAPE = "\x1b]0;title\x07\x9b2J\u202e\nnext"
NOISE = frozenset("\x1b\x07\x9b\u202e")


# --- what is shown


def test_an_error_message_cannot_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", f"/no/such{ESCAPE}" + "x" * 100_000]) != 0
    said = capsys.readouterr().err
    assert not NOISE & set(said)
    assert len(said) < 6000


def test_a_file_name_that_is_no_text_can_be_shown() -> None:
    assert shown("no \udcff file") == "no \\udcff file"


def test_a_verdict_cannot_drive_the_terminal_in_either_form() -> None:
    verdict = verdict_of(one_sleeps())
    culprit = replace(verdict.culprits[0], doing=ESCAPE, file=ESCAPE, function=ESCAPE, code=ESCAPE)
    bad = replace(verdict, culprits=(culprit,), summary=ESCAPE, because=ESCAPE, chain=(ESCAPE,))
    line = machine.line(bad)
    assert not NOISE & set(line)
    assert msgspec.json.decode(line)["verdict"]["summary"] == ESCAPE
    assert not NOISE & set(terminal.render(bad, width=80, colour=False))


# --- numbers without end


def test_a_line_that_names_rank_fifty_million_takes_no_memory(knowledge: KnowledgeBase) -> None:
    line = "RuntimeError: [rank 50000000] Timed out initializing process group in store based"
    line += " barrier on rank: 50000000, for key: store_based_barrier_key:1"
    line += " (world_size=99999999, worker_count=9, timeout=0:30:00)"
    for _, _, fields in Matcher(knowledge).confirm(line):
        assert not {"rank", "world_size"} & fields.keys()
    assert positions.Waits(LogReading(matches=(), world_size=10**9)).world_size == MOST_RANKS


def test_a_field_of_five_thousand_digits_is_left_out(knowledge: KnowledgeBase) -> None:
    line = "Timed out waiting on barrier on rank " + "7" * 5000 + ", for key prefix: k"
    line += " (world_size=" + "1" * 5000 + ", missing_ranks=[1], timeout=2)"
    for _, _, fields in Matcher(knowledge).confirm(line):
        assert all(len(value) <= 2000 for value in fields.values())


@pytest.mark.parametrize("text", ["9" * 5000, "9" * 40, "9" * 30 + "d", f"{'9' * 50}:00"])
def test_a_duration_of_thousands_of_digits_is_none(text: str) -> None:
    assert durations.parse(text) is None


def test_a_file_named_by_a_digit_that_is_no_number(tmp_path: Path) -> None:
    for name in ("²", "rank_10.log", "rank_2.log"):
        (tmp_path / name).write_text("x")
    found = [Path(one.path).name for one in sources.find([str(tmp_path)])]
    assert found == ["rank_2.log", "rank_10.log", "²"]


# --- files that are none


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "error.json")
    return tmp_path / "error.json"


def test_a_pipe_is_no_file(fifo: Path) -> None:
    with pytest.raises(OSError, match="ordinary"):
        whole_file(fifo, 100)


def test_a_pipe_in_a_directory_of_logs_is_left_out(fifo: Path) -> None:
    (fifo.parent / "train.log").write_text("x")
    assert [one.path for one in sources.find([str(fifo.parent)])] == [
        str(fifo.parent / "train.log")
    ]


def test_a_pipe_beside_a_dump_does_not_hang(fifo: Path) -> None:
    assert list(dumps.error_files([fifo.parent])) == []


def test_error_files_elsewhere_in_a_shared_directory_are_not_ours(tmp_path: Path) -> None:
    (tmp_path / "their").mkdir()
    (tmp_path / "their" / "error.json").write_text('{"message": "theirs"}')
    assert [text for _, _, text in dumps.error_files([tmp_path])] == ["theirs"]
    tmp_path.chmod(0o1777)
    assert list(dumps.error_files([tmp_path])) == []


def test_a_script_read_from_a_pipe_has_no_source_text(fifo: Path) -> None:
    assert source_text.line(str(fifo), 1) == ""


def test_a_config_that_is_a_pipe_is_refused(fifo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "show", "--config", str(fifo)]) != 0
    assert "ordinary" in capsys.readouterr().err


def test_logs_from_a_pipe_are_read(tmp_path: Path) -> None:
    """As `unstuck explain <(command)`: it cannot be rewound."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"one\ntwo\n" * 1000,))
    writer.start()
    with open_log(str(path)) as stream:
        found = b"".join(chunk.data for chunk in chunks(stream, str(path)))
    writer.join()
    assert found == b"one\ntwo\n" * 1000


def test_damaged_zstd_is_an_error_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "train.log.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + b"\xff" * 50)
    with pytest.raises(LogUnreadableError), open_log(str(path)) as stream:
        list(chunks(stream, str(path)))


# --- pickles and patterns


def bomb(levels: int) -> bytes:
    """A list that holds the same list twice, which holds the same list twice, …"""
    body = b"]" + b"\x94"
    for level in range(levels):
        body += b"]\x94(" + b"h" + bytes([level]) + b"h" + bytes([level]) + b"e"
    return b"\x80\x04" + body + b"."


def test_a_pickle_that_unfolds_to_billions_of_values_is_refused() -> None:
    with pytest.raises(DumpDamagedError):
        loads(bomb(40))
    assert loads(bomb(3)) == [[[[], []], [[], []]], [[[], []], [[], []]]]


def test_a_pickle_that_is_nested_without_marks_is_refused() -> None:
    with pytest.raises(DumpDamagedError):
        loads(b"\x80\x04N" + b"\x85" * 5000 + b".")


def test_a_conditional_group_is_refused() -> None:
    assert "conditional" in regex.problem(r"x(a)?(?(1)a|b)c")


# --- what is left on disk


@pytest.fixture
def knowledge() -> KnowledgeBase:
    return load()


def test_a_damaged_cache_behind_a_right_checksum_is_as_good_as_none(tmp_path: Path) -> None:
    path = tmp_path / "records.msgpack"
    for data in (b"\xc1", b"\xd9\x02\xff\xff", b"\x91" * 5000, b""):
        path.write_bytes(sha256(data).digest() + data)
        assert loading._from_cache(path) is None


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[Path]:
    """A link in our directory to a file that is not ours to write."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    yield victim
    assert victim.read_text() == "precious"


def test_a_planted_link_is_not_written_through(planted: Path) -> None:
    run = planted.parent
    (run / ".unstuck.json.new").symlink_to(planted)
    write_whole(run / "unstuck.json", b"{}")
    assert (run / "unstuck.json").read_bytes() == b"{}"
    (run / "ledger.jsonl").symlink_to(planted)
    with pytest.raises(OSError, match="link") as error:
        appended(run / "ledger.jsonl")
    assert error.value.errno == errno.ELOOP


def test_descriptors_exhausted_are_said_once_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    clock = FakeClock()
    logger = logging.getLogger("asyncio of the test")
    logger.propagate = False
    logger.addHandler(Rarely("hub", clock))
    for _ in range(1000):
        logger.error("socket.accept() out of system resource\nsocket: 7", exc_info=OSError(24, "x"))
    assert capsys.readouterr().err.count("\n") == 1
    clock.sleep(EVERY + 1)
    logger.error("socket.accept() out of system resource\nsocket: 8", exc_info=OSError(24, "x"))
    assert capsys.readouterr().err == (
        "unstuck: the hub: socket.accept() out of system resource ([Errno 24] x)\n"
    )
