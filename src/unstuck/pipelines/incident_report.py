"""From a stored incident to its report; also what writes `report.html` beside every incident.

Run as `python -m unstuck.pipelines.incident_report BUNDLE`, it is a process of its own, at low
priority: however large the job and whatever goes wrong, the hub does not wait and does not notice.
"""

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from unstuck.collect import bundle, timeouts_file
from unstuck.console import say
from unstuck.errors import SettingsError
from unstuck.explain.report.incident import page
from unstuck.explain.report.incident.contents import Report, contents
from unstuck.files import write_whole

NAME = "report.html"
"""Of the file beside the others of a bundle."""
MOST_LEDGER = 200
_NICE = 15


def load(path: Path) -> Report:
    """Read an incident bundle and what lies beside it, and gather what its report shows.

    Example:
        load(Path("runs/7/incident-1")).verdict
    """
    incident = bundle.read(path)
    run = incident.path.parent
    settings = None
    with contextlib.suppress(SettingsError):
        settings = timeouts_file.read(run)
    return contents(
        incident.snapshot,
        incident.verdict,
        incident.about,
        title=f"{incident.path.name} of {run.name or run}",
        timeouts=settings,
        ledger=read_ledger(run / "ledger.jsonl"),
    )


def read_ledger(path: Path) -> tuple[dict[str, Any], ...]:
    """Read the last acts of a ledger; a line that is damaged is left out."""
    try:
        lines = path.read_bytes().splitlines()[-MOST_LEDGER:]
    except OSError:
        return ()
    found: list[dict[str, Any]] = []
    for line in lines:
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            found.append(msgspec.json.decode(line, type=dict[str, Any]))
    return tuple(found)


class ReportWriter:
    """Writes the report of each incident, in processes of their own."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[bytes]] = []

    def write(self, incident: Path) -> None:
        """Begin to write the report of a bundle; whatever fails is one line."""
        self._running = [one for one in self._running if one.poll() is None]
        command = [sys.executable, "-m", "unstuck.pipelines.incident_report", str(incident)]
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, close_fds=True
            )
        except OSError as error:
            say(f"could not write the report: {(error.strerror or str(error)).lower()}")
        else:
            self._running.append(process)

    def finish(self, within: float) -> None:
        """Wait until all are written, and end what takes longer."""
        for process in self._running:
            try:
                process.wait(within)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running = []


def main(arguments: list[str]) -> int:
    """Write the report of one bundle into it; whatever fails is one line."""
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    incident = Path(arguments[0])
    try:
        write_whole(incident / NAME, page.render(load(incident)).encode(errors="replace"))
    except Exception as error:  # noqa: BLE001 - a report that fails must not look like a fault
        say(f"could not write the report of {incident.name}: {type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
