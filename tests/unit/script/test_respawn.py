"""The parent of a rank ends as the rank does, and starts it again only in a resilient training."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

START = """
import os, signal, sys, time
from unstuck.script import respawn
respawn._LIVED = LIVED
again = "UNSTUCK_RESPAWNED" in os.environ
if not again:
    respawn.stand_before(1)
def train():
    open(respawn.mark_path(0), "w").close()
"""


def begin(folder: Path, rank: str, lived: float = 0.0) -> subprocess.Popen[str]:
    """Start a rank with its guard."""
    script = folder / "train.py"
    script.write_text(START.replace("LIVED\n", f"{lived}\n", 1) + rank)
    return subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "RANK": "0", "UNSTUCK_LIVE_DIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, rank: str, lived: float = 0.0) -> tuple[int, str, str]:
    with begin(folder, rank, lived) as started:
        out, err = started.communicate(timeout=60)
    return started.returncode, out, err


@pytest.mark.parametrize(
    ("rank", "code"),
    [
        ("sys.exit(0)", 0),
        ("sys.exit(7)", 7),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
    ],
)
def test_the_launcher_sees_how_the_rank_ended(tmp_path: Path, rank: str, code: int):
    assert run(tmp_path, rank) == (code, "", "")


def test_a_rank_that_dies_in_a_resilient_training_is_started_once_more(tmp_path: Path):
    rank = "train()\nprint('again' if again else 'first', flush=True)\nos._exit(3)"
    code, out, err = run(tmp_path, rank)
    assert (code, out) == (3, "first\nagain\n")
    assert err == "unstuck: rank 0 ended (exit code 3); starting it again by itself\n"


def test_a_rank_that_dies_at_once_would_only_die_again(tmp_path: Path):
    assert run(tmp_path, "train()\nos._exit(3)", lived=60.0) == (3, "", "")


def test_a_mark_of_an_earlier_attempt_does_not_count(tmp_path: Path):
    (tmp_path / "resilient-0").touch()
    assert run(tmp_path, "os._exit(3)") == (3, "", "")


def test_the_launchers_signal_reaches_the_rank_and_ends_both(tmp_path: Path):
    # The sleep is a rank at work: only the signal ends it.
    with begin(tmp_path, "train()\nprint('ready', flush=True)\ntime.sleep(600)") as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        started.terminate()
        out, err = started.communicate(timeout=60)
    assert (started.returncode, out, err) == (-signal.SIGTERM, "", "")
