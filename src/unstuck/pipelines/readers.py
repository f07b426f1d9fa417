"""What people and tools ask of a running job: its state in brief, stacks, a dump.

The cost does not grow with how many ask, nor with how often: the state is summed up once for
all of them, and the same stack is taken at most once a second.
"""

import contextlib
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from unstuck.act.news import Incidents
from unstuck.act.report import shortened
from unstuck.clock import SYSTEM, Clock
from unstuck.collect import bundle
from unstuck.errors import UnstuckError
from unstuck.explain.view.job_view import JobView
from unstuck.explain.view.rank_view import view_rank
from unstuck.files import write_whole
from unstuck.model import liveness
from unstuck.model.notice import Notice
from unstuck.model.rank import RankState
from unstuck.model.requests import EvidenceKind, EvidenceRequest
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Verdict
from unstuck.pipelines import job_status
from unstuck.pipelines.job_status import JobStatus, OpenIncident

MOST_STACKS = 64
"""Of which stacks are taken for one question or one dump."""
_FRESH_FOR = 0.25
_RANKS_A_SECOND = 5000
"""Summing up 100,000 ranks takes some tenths of a second, so there it is done less often."""
_WANTED_FOR = 3.0
"""How long stacks are asked for after a question, and how long a dump waits for them."""
_RECENT = 1.0


class _Dump(Struct):
    """A dump that was asked for."""

    asked_at: float
    path: str = ""
    error: str = ""


class Readers:
    """Answers whoever only wants to look."""

    def __init__(
        self, run: Path, command: list[str], incidents: Incidents, clock: Clock = SYSTEM
    ) -> None:
        self._run = run
        self._command = command
        self._incidents = incidents
        self._clock = clock
        self._snapshot: Snapshot | None = None
        self._status: JobStatus | None = None
        self._view: JobView | None = None
        self._notices: tuple[Notice, ...] = ()
        self._looked = 0.0
        self._bundles: dict[str, str] = {}
        self._wanted: dict[int, float] = {}
        self._dumps: list[_Dump] = []

    # --- what the pipeline tells

    def note(
        self, snapshot: Snapshot, notices: tuple[Notice, ...] = ()
    ) -> tuple[EvidenceRequest, ...]:
        """Take in a snapshot and its hold-ups; return the stacks that somebody waits for."""
        self._snapshot, self._notices = snapshot, notices
        now = self._clock.monotonic()
        self._wanted = {rank: until for rank, until in self._wanted.items() if until > now}
        if self._dumps:
            self._finish_dump(self._dumps[-1], snapshot, now)
        if not self._wanted:
            return ()
        lacking = [one.rank for one in snapshot.ranks if one.rank in self._wanted and _lacks(one)]
        return (EvidenceRequest(EvidenceKind.STACK, tuple(lacking)),) if lacking else ()

    def note_bundle(self, verdict: Verdict, path: Path | None) -> None:
        """Remember where a verdict is stored."""
        if path is not None:
            self._bundles[_key(verdict)] = path.name

    def write_last(self) -> None:
        """Write down how the job stood at its end; a full disk is no reason to fail."""
        if self._snapshot is not None:
            status = job_status.make(self._snapshot, self._open(), self._notices, ended=True)
            with contextlib.suppress(OSError):
                write_whole(self._run / job_status.FILE, msgspec.json.encode(status) + b"\n")

    # --- what readers ask

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Answer one question of `unstuck.observe.probe.link.FOR_READERS`.

        Example:
            readers.answer({"ask": "job"})["job"]["state"]   # "running"
        """
        if self._snapshot is None:
            return {"error": "the hub has not seen the job yet"}
        match question.get("ask"):
            case "job":
                return {"job": msgspec.to_builtins(self._look(self._snapshot)[0])}
            case "view":
                return {"view": msgspec.to_builtins(self._look(self._snapshot)[1])}
            case "rank":
                return self._rank(self._snapshot, question.get("rank"))
            case "stacks":
                return self._stacks(self._snapshot, question.get("ranks"))
            case _:
                return self._dump(self._snapshot, question.get("ticket"))

    def _look(self, snapshot: Snapshot) -> tuple[JobStatus, JobView]:
        """Return the job in brief and in full, in a small job not older than a quarter second."""
        now = self._clock.monotonic()
        fresh_for = max(_FRESH_FOR, len(snapshot.ranks) / _RANKS_A_SECOND)
        if self._status and self._view and now - self._looked < fresh_for:
            return self._status, self._view
        incidents = self._open()
        view = job_status.view_of(snapshot, incidents, self._notices)
        status = job_status.of_view(view, snapshot, incidents)
        self._status, self._view, self._looked = status, view, now
        return status, view

    def _rank(self, snapshot: Snapshot, rank: Any) -> dict[str, Any]:
        if not isinstance(rank, int):
            return {"error": "say which rank: a number"}
        verdict = next(iter(self._incidents.open), None)
        return {"rank": msgspec.to_builtins(view_rank(snapshot, rank, verdict))}

    def _open(self) -> tuple[OpenIncident, ...]:
        return tuple(
            OpenIncident(shortened(verdict), self._bundles.get(_key(verdict), ""))
            for verdict in self._incidents.open
        )

    def _stacks(self, snapshot: Snapshot, ranks: Any) -> dict[str, Any]:
        """Return the stacks that are known, and begin to take those that are not fresh."""
        if not isinstance(ranks, list) or not ranks:
            return {"error": "say of which ranks: a list of numbers"}
        numbers = {one for one in cast("list[Any]", ranks)[:MOST_STACKS] if isinstance(one, int)}
        self._want(numbers)
        found = {
            str(one.rank): {
                "host": one.host,
                "ended": liveness.has_ended(one),
                "age": one.stack_age,
                "threads": one.threads,
            }
            for one in snapshot.ranks
            if one.rank in numbers
        }
        return {"stacks": found}

    def _want(self, ranks: set[int]) -> None:
        until = self._clock.monotonic() + _WANTED_FOR
        self._wanted.update(dict.fromkeys(ranks, until))

    def _dump(self, snapshot: Snapshot, ticket: Any) -> dict[str, Any]:
        """Begin to store the job as it is, or say of a ticket where it was stored."""
        if isinstance(ticket, int):
            if not 0 < ticket <= len(self._dumps):
                return {"error": "there is no dump of that number"}
            dump = self._dumps[ticket - 1]
            return {"error": dump.error} if dump.error else {"ticket": ticket, "path": dump.path}
        if not self._dumps or self._dumps[-1].path or self._dumps[-1].error:
            self._dumps.append(_Dump(self._clock.monotonic()))
            self._want({one.rank for one in _worth_a_stack(snapshot)})
        return {"ticket": len(self._dumps), "path": ""}

    def _finish_dump(self, dump: _Dump, snapshot: Snapshot, now: float) -> None:
        """Store what was asked for once all stacks are there, or have taken too long."""
        if dump.path or dump.error:
            return
        waits = any(_lacks(one) for one in _worth_a_stack(snapshot))
        if waits and now - dump.asked_at < _WANTED_FOR:
            return
        verdict = next(iter(self._incidents.open), None)
        about = {"command": self._command, "asked_for": "unstuck dump"}
        try:
            dump.path = str(bundle.write(self._run, snapshot, verdict, about=about))
        except UnstuckError as error:
            dump.error = error.message


def _lacks(one: RankState) -> bool:
    """Tell whether a rank has no stack of this moment."""
    fresh = one.threads and one.stack_age is not None and one.stack_age <= _RECENT
    return not liveness.has_ended(one) and not fresh


def _worth_a_stack(snapshot: Snapshot) -> tuple[RankState, ...]:
    """Return the ranks whose stacks a dump holds: those behind the others first."""
    live = [one for one in snapshot.ranks if not liveness.has_ended(one) and not one.unobserved]
    return tuple(sorted(live, key=lambda one: (one.in_flight, one.rank))[:MOST_STACKS])


def _key(verdict: Verdict) -> str:
    return f"{verdict.made_at} {verdict.summary}"
