"""Where the page has its data from: a job that runs, or what a run left behind."""

import asyncio
import contextlib
import re
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from unstuck.collect import bundle, timeouts_file
from unstuck.collect.following import Follower
from unstuck.errors import SettingsError
from unstuck.model.notice import Notice
from unstuck.model.snapshot import Snapshot
from unstuck.model.timeouts import JobSettings
from unstuck.model.verdict import Verdict
from unstuck.pipelines.incident_report import NAME, read_ledger

INCIDENT = re.compile(r"incident-\d{1,9}")
MOST_INCIDENTS = 100


class Brief(Struct, frozen=True):
    """One stored incident in a line."""

    name: str
    cause: str = ""
    summary: str = ""
    made_at: str = ""
    report: bool = False
    """Whether its report can be opened."""


class Source(Protocol):
    """A run that can be shown."""

    run: Path
    live: bool
    news: asyncio.Event

    @property
    def connected(self) -> bool:
        """Whether what is shown is current."""
        ...

    @property
    def verdict(self) -> Verdict | None:
        """What is wrong now."""
        ...

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Who holds the others up, and is not known to be stuck."""
        ...

    def snapshot(self) -> Snapshot:
        """Return the job as it is."""
        ...


class LiveRun:
    """A job that runs: followed through its hub."""

    live = True

    def __init__(self, run: Path, follower: Follower) -> None:
        self.run = run
        self._follower = follower
        self.news = follower.news
        self.snapshot = follower.snapshot

    @property
    def connected(self) -> bool:
        """Whether the hub is there."""
        return self._follower.connected

    @property
    def verdict(self) -> Verdict | None:
        """What is wrong now."""
        return self._follower.verdict

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Who holds the others up, and is not known to be stuck."""
        return self._follower.notices


class StoredRun:
    """What a run left behind: its newest incident, or an incident by itself."""

    live = False
    connected = True
    notices: tuple[Notice, ...] = ()

    def __init__(self, path: Path) -> None:
        """Read it.

        Raises:
            BundleError: there is no incident, or it is damaged.
        """
        incident = bundle.read(path)
        self.run = incident.path.parent
        self.news = asyncio.Event()
        self.verdict = incident.verdict
        self._snapshot = incident.snapshot

    def snapshot(self) -> Snapshot:
        """Return the job as it was stored."""
        return self._snapshot


class Folder:
    """What lies in a run directory, read when somebody looks."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._known: dict[str, Brief] = {}

    def incidents(self) -> tuple[Brief, ...]:
        """List the stored incidents, newest first."""
        with contextlib.suppress(OSError):
            for path in self._run.iterdir():
                if INCIDENT.fullmatch(path.name) and not self._is_known(path):
                    self._known[path.name] = _brief(path)
        newest = sorted(self._known.values(), key=lambda one: -int(one.name.rpartition("-")[2]))
        return tuple(newest[:MOST_INCIDENTS])

    def _is_known(self, path: Path) -> bool:
        known = self._known.get(path.name)
        return known is not None and (known.report or not (path / NAME).exists())

    def report(self, name: str) -> bytes | None:
        """Read the report of an incident; None where there is none of that name."""
        if not INCIDENT.fullmatch(name):
            return None
        try:
            return (self._run / name / NAME).read_bytes()
        except OSError:
            return None

    def settings(self) -> JobSettings | None:
        """Read the timeouts that the ranks have."""
        try:
            return timeouts_file.read(self._run)
        except SettingsError:
            return None

    def ledger(self) -> tuple[dict[str, Any], ...]:
        """Read what was done, newest first."""
        return tuple(reversed(read_ledger(self._run / "ledger.jsonl")))


class _Line(Struct):
    cause: str = ""
    summary: str = ""
    made_at: str = ""


class _Stored(Struct):
    verdict: _Line | None = None


def _brief(path: Path) -> Brief:
    report = (path / NAME).exists()
    try:
        found = msgspec.json.decode((path / "verdict.json").read_bytes(), type=_Stored).verdict
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return Brief(path.name, "", "this incident is damaged", "", report)
    line = found or _Line()
    return Brief(path.name, line.cause, line.summary, line.made_at, report)
