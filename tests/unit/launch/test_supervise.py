"""A command under `unstuck run` behaves as without it: input, output, signals, exit code."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from children import until

Start = Callable[..., subprocess.Popen[str]]
# The handlers write without a buffer: "ready" may still be on its way out of it.
HANDLER = (
    "import os, signal, sys, time\n"
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
    "signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b'usr1\\n'))\n"
    "print('ready', flush=True)\n"
    "time.sleep(600)\n"
)
STUBBORN = (
    "import os, signal, time\n"
    "signal.signal(signal.SIGTERM, lambda *_: os.write(1, b'no\\n'))\n"
    "print('ready', flush=True)\n"
    "while True: time.sleep(600)\n"
)
OUTLIVES = (
    "import os, subprocess, sys, time\n"
    "left = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],\n"
    "    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)\n"
    "print(left.pid, flush=True)\n"
    "os.kill(os.getpid(), 9)\n"
)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def begin(
        *argv: str, stdin: int = subprocess.DEVNULL, options: tuple[str, ...] = ()
    ) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "unstuck", "run", "--run-dir", str(tmp_path / "run")]
        process = subprocess.Popen(
            [*command, *options, "--", *argv],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        process.wait()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def own(err: str) -> str:
    """Return what the command itself wrote: two lines of ours come first."""
    first, second, rest = err.split("\n", 2)
    assert first.startswith("unstuck: watching; incidents go to ")
    assert second.startswith("unstuck: watch it at http://127.0.0.1:")
    return rest


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 143), ("kill -9 $$", 137)]
)
def test_exit_code_is_the_commands(start: Start, script: str, code: int):
    process = start("sh", "-c", script)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, own(err)) == (code, "", "")


def test_input_and_output_are_the_commands(start: Start):
    process = start("cat", stdin=subprocess.PIPE)
    out, err = process.communicate("some words\n", timeout=60)
    assert (process.returncode, out, own(err)) == (0, "some words\n", "")


def test_run_directory_names_the_run_and_holds_nothing_live_afterwards(
    start: Start, tmp_path: Path
):
    process = start("sh", "-c", "echo $UNSTUCK_LIVE_DIR; ls $UNSTUCK_LIVE_DIR/..")
    out, _ = process.communicate(timeout=60)
    live = Path(out.splitlines()[0])

    assert live.name in out.splitlines()[1:]
    assert not live.exists()
    names = {path.name for path in (tmp_path / "run").iterdir()}
    # How the job stood at its end is left by a hub that has seen it: this one hardly lives.
    assert names - {"status.json"} == {"unstuck.json"}


def test_missing_command_is_the_users_to_put_right(start: Start):
    process = start("no-such-launcher")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert "there is no command no-such-launcher" in err


@pytest.mark.parametrize(("mode", "said"), [(0o644, "may not be executed"), (0o755, "cannot be")])
def test_script_that_cannot_be_executed(start: Start, tmp_path: Path, mode: int, said: str):
    script = tmp_path / "train"
    script.write_text("print(1)\n")
    script.chmod(mode)
    process = start(str(script))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert said in err
    assert "Traceback" not in err


def test_signals_reach_the_command(start: Start):
    process = start(sys.executable, "-c", HANDLER)
    assert line(process) == "ready"
    process.send_signal(signal.SIGUSR1)
    assert line(process) == "usr1"
    process.terminate()
    assert process.wait(30) == 7


def test_second_request_to_end_is_an_order(start: Start):
    process = start(sys.executable, "-c", STUBBORN)
    assert line(process) == "ready"
    process.terminate()
    assert line(process) == "no"
    process.terminate()
    assert process.wait(30) == 137


def test_what_outlives_a_killed_launcher_is_ended(start: Start):
    process = start(sys.executable, "-c", OUTLIVES)
    left = int(line(process))
    assert process.wait(30) == 137
    assert process.stderr is not None
    assert "ended 1 processes that outlived" in process.stderr.read()
    until(lambda: not Path(f"/proc/{left}").exists())


# Both would stay for ever: each ends by the signals that the tests are about.
LEAVES_A_RANK = (
    "import os, pathlib, subprocess, sys, time\n"
    "rank = subprocess.Popen([sys.executable, '-c', os.environ['SAVES']], start_new_session=True)\n"
    "time.sleep(600)\n"
)
SAVES = (
    "import os, pathlib, signal, sys, time\n"
    "def save(*_):\n"
    "    time.sleep(4)\n"
    "    os.write(1, b'saved\\n')\n"
    "    os._exit(0)\n"
    "signal.signal(signal.SIGTERM, save)\n"
    "pathlib.Path(os.environ['UNSTUCK_LIVE_DIR'], f'rank-0.{os.getpid()}.page').touch()\n"
    "print('ready', flush=True)\n"
    "time.sleep(600)\n"
)


def test_rank_saves_although_its_launcher_has_ended_at_once(
    start: Start, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SAVES", SAVES)
    process = start(sys.executable, "-c", LEAVES_A_RANK)
    assert line(process) == "ready"
    process.terminate()
    assert line(process) == "saved"
    assert process.wait(30) == 128 + signal.SIGTERM


ASKS = (
    "import json, os, pathlib, sys, time\n"
    "live = pathlib.Path(os.environ['UNSTUCK_LIVE_DIR'])\n"
    "stop = {'code': 82, 'why': 'mismatch', 'grace': float(sys.argv[1])}\n"
    "(live / 'new').write_text(json.dumps(stop))\n"
    "(live / 'new').rename(live / 'stop.json')\n"
    "print('asked', flush=True)\n"
    "time.sleep(float(sys.argv[2]))\n"
    "sys.exit(int(sys.argv[3]))\n"
)
ACTS = ("--on", "process-crash=report,stop:code")


def test_policy_ends_the_command_with_its_own_code(start: Start):
    process = start(sys.executable, "-c", ASKS, "0", "600", "1", options=ACTS)
    assert line(process) == "asked"
    assert process.wait(30) == 82


def test_command_that_ends_by_itself_in_time_has_the_policys_code(start: Start):
    process = start(sys.executable, "-c", ASKS, "20", "0.5", "1", options=ACTS)
    assert process.wait(30) == 82


def test_command_that_succeeds_all_the_same_has_succeeded(start: Start):
    process = start(sys.executable, "-c", ASKS, "20", "0.5", "0", options=ACTS)
    assert process.wait(30) == 0


def test_without_a_policy_that_acts_nobody_can_ask_for_the_end(start: Start):
    process = start(sys.executable, "-c", ASKS, "0", "0.8", "5")
    assert process.wait(30) == 5


def test_ctrl_c_reaches_the_children_of_multiprocessing_too(start: Start, tmp_path: Path):
    """In a terminal the whole group gets it; a parent that waits for them hands nothing on."""
    script = tmp_path / "spawn.py"
    script.write_text(
        "import multiprocessing as mp, time\n"
        "def work():\n"
        "    try:\n"
        "        print('ready', flush=True)\n"
        "        time.sleep(600)\n"
        "    except KeyboardInterrupt:\n"
        "        print('child', flush=True)\n"
        "if __name__ == '__main__':\n"
        "    child = mp.get_context('spawn').Process(target=work)\n"
        "    child.start()\n"
        "    child.join()\n"
    )
    process = start(sys.executable, str(script))
    assert line(process) == "ready"
    process.send_signal(signal.SIGINT)
    assert line(process) == "child"
    assert process.wait(20) != 0
