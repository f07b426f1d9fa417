"""How a process ends is written down before it does, and the script notices nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

START = """
import json, os, sys
from unstuck.observe.probe import ending as module
from unstuck.observe.probe.ending import Ending
def flush():
    with open(sys.argv[1], "a") as file:
        told = {"phase": ending.phase, "failure": ending.failure, "exit": ending.exit_asked}
        file.write(json.dumps(told) + "\\n")
ending = Ending(flush, lambda: open(sys.argv[1] + ".stopped", "w").close())
ending.install()
"""


def ended(folder: Path, rest: str) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    script = folder / "train.py"
    script.write_text(START + rest)
    done = subprocess.run(
        [sys.executable, str(script), str(folder / "told")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ},
    )
    told = (folder / "told").read_text().splitlines() if (folder / "told").exists() else []
    return done, [json.loads(line) for line in told]


@pytest.mark.parametrize(
    ("rest", "code", "asked"),
    [
        ("", 0, None),
        ("sys.exit()", 0, 0),
        ("sys.exit(0)", 0, 0),
        ("sys.exit(3)", 3, 3),
        ("sys.exit(-1)", 255, 255),
        ("sys.exit('bad')", 1, 1),
        ("raise SystemExit(4)", 4, None),
        ("import threading; threading.Thread(target=sys.exit, args=(5,)).start()", 0, None),
        ("try: sys.exit(3)\nexcept SystemExit: module.UNWOUND_WITHIN = 0.0", 0, None),
    ],
)
def test_exit(tmp_path: Path, rest: str, code: int, asked: int | None):
    done, told = ended(tmp_path, rest)

    assert done.returncode == code
    assert told == [{"phase": "exit", "failure": None, "exit": asked}]
    assert done.stderr == ("bad\n" if code == 1 else "")
    assert (tmp_path / "told.stopped").exists()


def test_exception_is_told_at_once_with_the_users_line(tmp_path: Path):
    done, told = ended(tmp_path, "def load():\n    json.loads('{')\nload()\n")

    assert done.returncode == 1
    assert [each["phase"] for each in told] == ["exception", "exception"]
    failure = told[0]["failure"]
    assert failure["type"] == "JSONDecodeError"
    file, line, function = failure["at"]
    assert (file, function) == (str(tmp_path / "train.py"), "load")
    assert "json.loads('{')" in (tmp_path / "train.py").read_text().splitlines()[line - 1]
    assert done.stderr.startswith("Traceback")
    assert "ending.py" not in done.stderr


def test_hook_of_the_script_still_runs_and_hides_nothing(tmp_path: Path):
    done, told = ended(tmp_path, "sys.excepthook = lambda *_: print('mine')\nraise KeyError('x')\n")

    assert (done.stdout, done.stderr) == ("mine\n", "")
    assert {each["failure"]["type"] for each in told} == {"KeyError"}


def test_interrupt(tmp_path: Path):
    # A job in the background of a shell inherits SIGINT ignored; this one must hear it.
    rest = "import signal, time\nsignal.signal(2, signal.default_int_handler)\n"
    done, told = ended(tmp_path, rest + "os.kill(os.getpid(), 2)\ntime.sleep(60)\n")

    assert done.returncode == -2
    assert told[-1]["failure"]["type"] == "KeyboardInterrupt"


def test_exception_whose_text_cannot_be_made_ends_as_always(tmp_path: Path):
    rest = "class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd\n"
    done, told = ended(tmp_path, rest)

    assert done.returncode == 1
    assert "Odd" in done.stderr
    assert "ending.py" not in done.stderr
    assert told[-1]["phase"] == "exit"


def test_fork_that_ends_tells_nothing(tmp_path: Path):
    rest = "if os.fork() == 0:\n    raise KeyError('in the fork')\nos.wait()\nos._exit(0)\n"
    done, told = ended(tmp_path, rest)

    assert "in the fork" in done.stderr
    assert told == []


def test_failing_page_does_not_change_the_end(tmp_path: Path):
    rest = "ending._flush = lambda: 1 / 0\nending._stop = lambda: 1 / 0\nsys.exit(5)\n"
    done, _ = ended(tmp_path, rest)
    assert (done.returncode, done.stderr) == (5, "")
