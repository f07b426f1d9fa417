"""What the hub notes about a run beside its incidents: timeouts, and ranks it cannot observe."""

from collections import defaultdict
from pathlib import Path

from unstuck.collect import timeouts_file
from unstuck.console import say
from unstuck.diagnose.text import ranks_text
from unstuck.diagnose.timeouts import live
from unstuck.model.snapshot import Snapshot
from unstuck.model.timeouts import JobSettings

_LOOK_EVERY = 5.0
_STARTS_WITHIN = 2.0
"""Seconds in which the probe of a rank may not have sent its first report yet."""


class RunRecord:
    """Notes each thing once."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._settings: JobSettings | None = None
        self._due = 0.0
        self._unobserved: dict[tuple[int, str], float] = {}
        self._mentioned: set[tuple[int, str]] = set()

    def note(self, snapshot: Snapshot) -> None:
        """Note what is new in a snapshot."""
        self._mention_unobserved(snapshot)
        self._keep_settings(snapshot)

    def _mention_unobserved(self, snapshot: Snapshot) -> None:
        fresh: defaultdict[str, list[int]] = defaultdict(list)
        for state in snapshot.ranks:
            key = (state.process.pid, state.unobserved)
            if not state.unobserved or key in self._mentioned:
                continue
            since = self._unobserved.setdefault(key, snapshot.taken_at)
            if snapshot.taken_at - since >= _STARTS_WITHIN:
                self._mentioned.add(key)
                fresh[state.unobserved].append(state.rank)
        for why, ranks in fresh.items():
            say(f"{ranks_text(ranks)} {'is' if len(ranks) == 1 else 'are'} unobserved: {why}")

    def _keep_settings(self, snapshot: Snapshot) -> None:
        """Keep the timeouts of the ranks in the run directory, whenever they change."""
        known = any(group.timeout for state in snapshot.ranks for group in state.groups)
        if snapshot.taken_at < self._due or not known:
            return
        found = live.read(snapshot)
        if found != self._settings:
            timeouts_file.write(self._run, found)
        self._settings = found
        # Looking at all ranks of a large job takes time, so it is done less often there.
        self._due = snapshot.taken_at + max(_LOOK_EVERY, len(snapshot.ranks) / 500)
