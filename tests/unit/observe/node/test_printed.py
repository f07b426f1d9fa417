"""The last lines of a rank's output are read where they are in a file, and nowhere else."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from unstuck.observe.node import printed
from unstuck.observe.node.printed import Printed

WAITS = "import sys; sys.stdin.read()"


@pytest.fixture
def files(tmp_path: Path) -> Iterator[tuple[Path, Path, Printed]]:
    """A process whose stdout and stderr are files."""
    out, err = tmp_path / "stdout.log", tmp_path / "stderr.log"
    with out.open("wb") as one, err.open("wb") as two:
        child = _start(one, two)
    yield out, err, Printed(child.pid)
    _end(child)


def _start(out: IO[bytes] | int, err: IO[bytes] | int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", WAITS]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=err)


def _end(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    child.stdin.close()
    child.wait(30)
    for stream in (child.stdout, child.stderr):
        if stream is not None:
            stream.close()


def test_errors_come_first_then_the_other_output(files: tuple[Path, Path, Printed]):
    out, err, said = files
    out.write_text("step 1\nstep 2\n")
    err.write_text("ValueError: bad batch\n")

    assert said.last() == ("ValueError: bad batch", "step 1", "step 2")


def test_only_the_last_lines_are_kept_and_a_bar_is_one_line(files: tuple[Path, Path, Printed]):
    _, err, said = files
    stack = "".join(f"frame #{n}: <unknown function> + 0x{n}\n" for n in range(40))
    err.write_text("old\n" * 99 + "step\r 10%\r 20%\nwhat(): CUDA error\n" + stack)

    lines = said.last()
    assert lines[-2:] == ("20%", "what(): CUDA error")
    assert len(lines) <= printed.MOST_LINES


def test_file_is_read_again_when_it_has_grown(files: tuple[Path, Path, Printed]):
    _, err, said = files
    assert said.last() == ()
    err.write_text("now it fails\n")
    assert said.last() == ("now it fails",)


def test_pipes_and_terminals_are_left_alone():
    child = _start(subprocess.PIPE, subprocess.DEVNULL)
    said = Printed(child.pid)
    _end(child)

    assert said.last() == ()


def test_process_that_is_gone_has_said_nothing():
    assert Printed(2**22 + 1).last() == ()


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ({"message": {"message": "ValueError: bad", "extraInfo": {}}}, ("ValueError: bad",)),
        ({"message": "killed"}, ("killed",)),
        ({"message": 7}, ()),
        ([], ()),
    ],
)
def test_error_file_of_torch_is_read_as_well(tmp_path: Path, content: object, lines: tuple[str]):
    file = tmp_path / "error.json"
    file.write_text(json.dumps(content))

    assert Printed(2**22 + 1).last(str(file)) == lines


def test_error_file_that_is_broken_says_nothing(tmp_path: Path):
    file = tmp_path / "error.json"
    file.write_text("{")
    assert Printed(2**22 + 1).last(str(file)) == ()
