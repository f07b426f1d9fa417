"""Start a job under `unstuck run`, wait for what it says, and leave nothing behind."""

import contextlib
import getpass
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from unstuck.errors import JobOverdueError
from unstuck.lab import owner
from unstuck.lab.owner import MARKER
from unstuck.model.verdict import SCHEMA

T = TypeVar("T")
PROGRAMS = Path(__file__).parent / "programs"
"""Training scripts of 7 to 40 lines, each in one state; they are part of the package."""
UNSTUCK = (sys.executable, "-m", "unstuck")
LAUNCH = ("-m", "torch.distributed.run")
LAUNCHER = (sys.executable, *LAUNCH)
TORCHRUN = (*LAUNCHER, "--standalone", "--nproc-per-node", "4")


def node_torchrun(first: str, own: str, *, nodes: int = 2, ranks: int = 2) -> list[str]:
    """Give the torchrun command of one of several nodes with `ranks` ranks each."""
    size = ["--nnodes", str(nodes), "--nproc-per-node", str(ranks)]
    where = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{first}:29400", "--rdzv-id", "job"]
    return [*LAUNCHER, *size, *where, "--local-addr", own]


class Job:
    """One `unstuck run COMMAND…` in a run directory of its own.

    Every process of the job carries a marker in its environment, so that it can be
    found again whatever it does to its parents, sessions and process groups.
    """

    def __init__(
        self,
        folder: Path,
        command: Sequence[str],
        *,
        options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        wrap: Callable[[Sequence[str]], Sequence[str]] = list,
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.run_dir = folder / "run"
        self.onset_file = folder / "onset"
        self.stdout, self.stderr = folder / "stdout", folder / "stderr"
        self._mark = f"{owner.tag()}-{uuid.uuid4().hex}"
        # Not below `folder`: the path of a socket in it must not be longer than 107 characters.
        self._temporary = owner.workplace()
        (self._temporary / "run").symlink_to(self.run_dir.absolute())
        argv = [*UNSTUCK, "run", "--run-dir", str(self.run_dir), *options, *command]
        own = {MARKER: self._mark, "ONSET_FILE": str(self.onset_file), "PYTHONUNBUFFERED": "1"}
        own |= temporary_files_in(self._temporary)
        with self.stdout.open("wb") as out, self.stderr.open("wb") as err:
            self.process = subprocess.Popen(
                list(wrap(argv)),
                stdin=stdin,
                stdout=out,
                stderr=err,
                env={**os.environ, **own, **(env or {})},
                start_new_session=True,
            )

    def onset(self) -> float | None:
        """Give the time at which the fault began, if it has."""
        with contextlib.suppress(FileNotFoundError):
            return float(self.onset_file.read_text())
        return None

    def wait_onset(self, timeout: float = 90) -> float:
        """Wait until the program has gone wrong."""
        return self._until(self.onset, timeout, "the fault never began")

    def wait_watched(self, timeout: float = 30) -> str:
        """Wait until the watchers run; `hub` where the hub is, else `agent`."""

        def look() -> str | None:
            if (self.run_dir / "unstuck.json").exists():
                return "hub"
            return "agent" if any(self.run_dir.glob("unstuck-*.json")) else None

        return self._until(look, timeout, "nobody watches")

    def verdicts(self) -> list[dict[str, Any]]:
        """Give all verdicts so far, oldest first."""
        return verdicts(self.run_dir)

    def notices(self) -> list[dict[str, Any]]:
        """Give all notices so far, oldest first."""
        return notices(self.run_dir)

    def wait_verdict(self, timeout: float = 20) -> dict[str, Any]:
        """Wait for the first verdict."""
        return self._until(lambda: next(iter(self.verdicts()), None), timeout, "no verdict")

    def wait_notice(self, timeout: float = 20) -> dict[str, Any]:
        """Wait for the first notice."""
        return self._until(lambda: next(iter(self.notices()), None), timeout, "no notice")

    def wait_exit(self, timeout: float = 60) -> int:
        """Wait for the end of the job and give its exit code.

        Raises:
            JobOverdueError: it still runs then.
        """
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise JobOverdueError(f"still running after {timeout:g} s\n{self.words()}") from None

    def interrupt(self, *, everybody: bool = False) -> None:
        """Send SIGINT to `unstuck run`, or as a terminal does to its whole process group."""
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if everybody else os.kill)(self.process.pid, signal.SIGINT)

    def pids(self) -> set[int]:
        """Find every living process that carries this job's marker."""
        return {pid for pid, mark in owner.marked(MARKER) if mark == self._mark}

    def wait_gone(self, timeout: float = 5) -> set[int]:
        """Wait until no process of the job is left; give those that are."""
        deadline = time.monotonic() + timeout
        while (left := self.pids()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left

    def kill(self) -> None:
        """Kill whatever is left of the job and remove its memory and temporary files."""
        while left := self.pids():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        self.process.wait()
        forget_live(self.run_dir)
        shutil.rmtree(self._temporary, ignore_errors=True)

    def words(self) -> str:
        """Give the end of what the job has printed, for the message of a failure."""
        return "\n".join(
            f"--- {file.name}\n{file.read_text(errors='replace')[-4000:]}"
            for file in (self.stdout, self.stderr)
        )

    def _until(self, look: Callable[[], T | None], timeout: float, complaint: str) -> T:
        deadline = time.monotonic() + timeout
        while True:
            # Look once more after the end: the last words of a job count too.
            over = self.process.poll() is not None or time.monotonic() > deadline
            found = look()
            if found is not None:
                return found
            if over:
                code = self.process.poll()
                raise JobOverdueError(f"{complaint}; exit code {code}\n{self.words()}")
            time.sleep(0.05)


def verdicts(run_dir: Path) -> list[dict[str, Any]]:
    """Give all verdicts that were written into a run directory so far, oldest first."""
    files = run_dir.glob("incident-[0-9]*/verdict.json")
    ordered = sorted(files, key=lambda file: int(file.parent.name.removeprefix("incident-")))
    read = [json.loads(file.read_text()) for file in ordered]
    known = (each for each in read if each["schema"] == SCHEMA)
    return [each["verdict"] for each in known if each["verdict"] is not None]


def notices(run_dir: Path) -> list[dict[str, Any]]:
    """Give all notices that were told so far, oldest first, each with `made_at` in Unix time."""
    found: list[dict[str, Any]] = []
    with contextlib.suppress(FileNotFoundError):
        for line in (run_dir / "notices.jsonl").read_text().splitlines():
            told = json.loads(line)
            if not told.get("over"):
                notice = told["notice"]
                since = datetime.fromisoformat(notice["since"]).timestamp()
                found.append({**notice, "made_at": since + notice["seconds"]})
    return found


def temporary_files_in(folder: Path) -> dict[str, str]:
    """Return the variables that put all temporary files of a job into a folder of its own.

    The compiler's cache stays where it is: a job that finds it empty compiles for much longer.
    """
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that has no name
        user = f"uid_{os.getuid()}"
    usual = str(Path(tempfile.gettempdir()) / f"torchinductor_{user}")
    cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR", usual)
    return {"TMPDIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": cache}


def forget_live(run_dir: Path) -> None:
    """Remove the live directories in memory that a killed `unstuck run` could not remove."""
    for link in run_dir.glob("live-*"):
        with contextlib.suppress(OSError):  # a file, or somebody else was faster
            shutil.rmtree(link.readlink(), ignore_errors=True)
            link.unlink(missing_ok=True)
