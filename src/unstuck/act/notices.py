"""Which hold-ups people hear of: each once, and that it is over. Nothing acts on them."""

import contextlib
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from unstuck.console import clean
from unstuck.explain.report import notice as words
from unstuck.files import appended
from unstuck.model.notice import Notice, NoticeFile
from unstuck.model.rank import RankState
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Verdict

_AGAIN_IF_LONGER = 3.0
"""A place that was long before is mentioned again when it takes so many times as long."""
_MOST_PLACES = 1000


class Notices:
    """Follows the hold-ups of one job, from the first look at each to its end."""

    def __init__(self, run: Path, *, as_json: bool = False) -> None:
        self._file = run / "notices.jsonl"
        self._as_json = as_json
        self._open: dict[tuple[int, ...], _Open] = {}
        self._longest: dict[tuple[str, int], float] = {}

    @property
    def current(self) -> tuple[Notice, ...]:
        """The hold-ups of this moment."""
        return tuple(one.notice for one in self._open.values())

    def look(self, found: Iterable[Notice], verdict: Verdict | None, snapshot: Snapshot) -> None:
        """Note what holds the job up now: tell what is new, what gets urgent and what is over."""
        blamed = {one.rank for one in verdict.culprits} if verdict else set[int]()
        for key, one in list(self._open.items()):
            if blamed & set(key):
                del self._open[key]  # the verdict says all that there is to say
            elif one.is_over(snapshot):
                del self._open[key]
                self._close(one, snapshot)
        for notice in found:
            self._note(notice, snapshot)

    def _note(self, notice: Notice, snapshot: Snapshot) -> None:
        ranks = tuple(one.rank for one in notice.ranks)
        key = next((known for known in self._open if set(known) & set(ranks)), None)
        if key is None:
            key = ranks
            told = notice.seconds >= _AGAIN_IF_LONGER * self._longest.get(_place(notice), 0.0)
            self._open[key] = _Open(notice, snapshot.taken_at, told=told)
            if told:
                self._tell(words.begins(notice), NoticeFile(notice))
            return
        one = self._open[key]
        one.notice = notice
        if notice.times_out_in is not None and not one.warned:
            one.warned = one.told = True
            self._tell(words.begins(notice), NoticeFile(notice))

    def _close(self, one: "_Open", snapshot: Snapshot) -> None:
        if one.has_ended(snapshot):
            return  # it did not move on: somebody ended it
        place = _place(one.notice)
        if len(self._longest) < _MOST_PLACES:
            self._longest[place] = max(self._longest.get(place, 0.0), one.notice.seconds)
        if one.told:
            self._tell([words.ends(one.notice)], NoticeFile(one.notice, over=True))

    def _tell(self, lines: list[str], file: NoticeFile) -> None:
        line = msgspec.json.encode(file)
        # The run directory may be full or gone; people hear of it all the same.
        with contextlib.suppress(OSError), appended(self._file) as journal:
            journal.write(line + b"\n")
        if self._as_json:
            sys.stderr.write(line.decode() + "\n")
        else:
            dim, plain = ("\x1b[2m", "\x1b[0m") if sys.stderr.isatty() else ("", "")
            heads = ("unstuck: ", "         ")
            for number, text in enumerate(lines):
                sys.stderr.write(f"{dim}{heads[number > 0]}{clean(text)}{plain}\n")
        sys.stderr.flush()


class _Open:
    """One hold-up that is not over."""

    def __init__(self, notice: Notice, since: float, *, told: bool) -> None:
        self.notice = notice
        self.told = told
        self.warned = notice.times_out_in is not None
        self._since = since

    def is_over(self, snapshot: Snapshot) -> bool:
        """Tell whether one of its ranks has moved since it was noticed, or is no more."""
        if self.has_ended(snapshot):
            return True
        passed = snapshot.taken_at - self._since
        return any(state.stalled_for < passed for state in self._states(snapshot))

    def has_ended(self, snapshot: Snapshot) -> bool:
        """Tell whether its ranks have ended, or are about to, instead of moving on."""
        states = self._states(snapshot)
        return (
            any(node.stopping for node in snapshot.nodes)
            or len(states) < len(self.notice.ranks)
            or self.notice.attempt != snapshot.attempt
            or any(state.process.gone_for is not None for state in states)
        )

    def _states(self, snapshot: Snapshot) -> list[RankState]:
        ranks = {one.rank for one in self.notice.ranks}
        return [state for state in snapshot.ranks if state.rank in ranks]


def _place(notice: Notice) -> tuple[str, int]:
    first = notice.ranks[0]
    return (first.file, first.line) if first.file else (first.kind, 0)
