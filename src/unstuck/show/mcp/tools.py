"""The tools: each is one question, answered from a run directory, a running job or a log."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, ParamSpec, TypeVar

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from unstuck.collect import bundle
from unstuck.collect.bundle import Incident
from unstuck.errors import BundleError, UnstuckError, UsageError
from unstuck.explain.kb.load import load
from unstuck.model.verdict import Verdict
from unstuck.pipelines import logs
from unstuck.pipelines.job_status import JobStatus
from unstuck.show import runs, status_text
from unstuck.show.mcp.brief import cut, evidence_item, page_of, record_brief, verdict_brief
from unstuck.show.mcp.typed import (
    EvidenceItems,
    IncidentBrief,
    Incidents,
    JobVerdict,
    LogVerdict,
    RankStack,
    Records,
    RunBrief,
    Runs,
    Stacks,
    UnknownLine,
)
from unstuck.show.runs import Run

MOST_RANKS = 8
MOST_STACK_LINES = 60
MOST_UNKNOWN = 5
MOST_FOUND = 100
LONGEST_LOG = 8 << 20

RunName = Annotated[
    str,
    Field(
        description="A run directory or the name of one, as list_runs gives it. Empty: the job "
        "that is running here, else the newest run."
    ),
]
IncidentName = Annotated[
    str,
    Field(description="An incident as list_incidents gives it. Empty: the newest of the run."),
]
Cursor = Annotated[str, Field(description="`next_cursor` of the previous answer.")]
Limit = Annotated[int, Field(ge=1, le=50, description="At most this many items.")]
Ranks = Annotated[
    list[int],
    Field(
        max_length=MOST_RANKS,
        description="At most 8 ranks. Empty: the culprits and one that waits for them.",
    ),
]
Lang = Literal["en", "zh"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _said(tool: Callable[_P, _R]) -> Callable[_P, _R]:
    """Turn our errors into those that an agent reads; anything else stays a bug."""

    @functools.wraps(tool)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return tool(*args, **kwargs)
        except UnstuckError as error:
            hint = f" ({error.hint})" if error.hint else ""
            raise ToolError(f"{error.message}{hint}") from error

    return call


class Tools:
    """Every public method is a tool; its docstring is what an agent reads about it."""

    def __init__(self, root: Path | None = None) -> None:
        """Answer about everything this user may read, or only about what is below `root`."""
        self._root = root.resolve() if root else None

    # --- runs

    @_said
    def list_runs(self, cursor: Cursor = "", limit: Limit = 10) -> Runs:
        """List the training runs on this host with their state. Start here: "my job hangs"."""
        found = {one.path: one for one in (*runs.running(), *reversed(runs.below()))}
        known = [one for one in found.values() if self._may(one.path)]
        known.sort(key=lambda one: not one.running)
        part, after = page_of(known, cursor, limit)
        return Runs(
            runs=[_run_brief(one, runs.status(one)) for one in part],
            next_cursor=after,
            total=len(known),
        )

    @_said
    def list_incidents(
        self, run: RunName = "", cursor: Cursor = "", limit: Limit = 10
    ) -> Incidents:
        """List what went wrong in a run: stalls, deaths, slow ranks, with cause and culprits."""
        paths = list(reversed(runs.bundles(self._run(run))))
        part, after = page_of(paths, cursor, limit)
        return Incidents(
            incidents=[_incident_brief(path) for path in part], next_cursor=after, total=len(paths)
        )

    # --- one job

    @_said
    def get_verdict(self, run: RunName = "", incident: IncidentName = "") -> JobVerdict:
        """Say which rank holds up a job, why, at which line of code, what to do and what not to.

        About this moment where the job runs; with `incident`, about that stored incident.
        """
        if incident:
            path, stored = self._stored("", incident)
            return JobVerdict(
                run=str(path.parent),
                state="",
                headline=cut(stored.verdict.summary if stored.verdict else "nothing was wrong"),
                incident=str(path),
                verdict=verdict_brief(stored.verdict) if stored.verdict else None,
            )
        place = self._run(run)
        status = runs.status(place)
        now = status.open[0] if status.open else None
        return JobVerdict(
            run=str(place.path),
            state=status.state,
            headline=cut(status_text.headline(status)),
            incident=str(place.path / now.bundle) if now and now.bundle else "",
            verdict=verdict_brief(now.verdict) if now else None,
        )

    @_said
    def get_evidence(
        self,
        run: RunName = "",
        incident: IncidentName = "",
        cursor: Cursor = "",
        limit: Limit = 10,
    ) -> EvidenceItems:
        """List the observations that a verdict rests on, and who waits for whom."""
        verdict = self._verdict(run, incident)
        part, after = page_of(verdict.evidence, cursor, limit)
        return EvidenceItems(
            cause=verdict.cause,
            chain=[cut(hop) for hop in verdict.chain[:10]],
            items=[evidence_item(one) for one in part],
            next_cursor=after,
            total=len(verdict.evidence),
        )

    @_said
    def get_stacks(
        self,
        run: RunName = "",
        ranks: Ranks = [],  # noqa: B006 - never changed; a schema needs the value
        incident: IncidentName = "",
        cursor: Cursor = "",
        limit: Limit = 2,
    ) -> Stacks:
        """Take the stacks of all threads of some ranks now, or read those stored in an incident.

        A running job is not disturbed: taking a stack interrupts a rank for about a millisecond.
        """
        place = self._run(run) if not incident else None
        if place is not None and place.running:
            return _live_stacks(place, ranks, cursor, limit)
        path, _ = self._stored(run, incident)
        files = {int(one.stem.removeprefix("rank-")): one for one in path.glob("stacks/rank-*.txt")}
        chosen = sorted(rank for rank in files if not ranks or rank in ranks)
        part, after = page_of(chosen, cursor, limit)
        texts = [
            _stack(rank, "", None, files[rank].read_text(errors="replace").splitlines())
            for rank in part
        ]
        return Stacks(taken=str(path), stacks=texts, next_cursor=after, total=len(chosen))

    # --- logs and knowledge

    @_said
    def explain_log(
        self,
        text: Annotated[str, Field(description="The log itself, or its relevant part.")] = "",
        path: Annotated[str, Field(description="A log file or a directory of logs.")] = "",
        lang: Lang = "en",
    ) -> LogVerdict:
        """Say what went wrong in a distributed PyTorch job, from its logs alone."""
        if bool(text) == bool(path):
            raise UsageError("give either text or path")
        if path:
            self._check(Path(path))
            found = logs.explain([path], lang=lang)
        else:
            found = logs.explain_text(text[-LONGEST_LOG:], lang=lang)
        verdict = found.verdict
        return LogVerdict(
            verdict=verdict_brief(verdict) if verdict else None,
            evidence=[evidence_item(one) for one in (verdict.evidence if verdict else ())[:5]],
            unknown=[
                UnknownLine(
                    text=cut(one.first.text),
                    file=cut(one.first.file),
                    line=one.first.line,
                    count=one.count,
                )
                for one in found.unknown[:MOST_UNKNOWN]
            ],
            notes=[cut(one) for one in found.notes[:MOST_UNKNOWN]],
            lines_read=found.lines,
        )

    @_said
    def search_knowledge(
        self,
        query: Annotated[
            str, Field(description="Words, a whole error message, or the id of a record.")
        ],
        cursor: Cursor = "",
        limit: Limit = 3,
        lang: Lang = "en",
    ) -> Records:
        """Search what is known about failure messages of PyTorch, NCCL, gloo, torchrun and others.

        Says of each which causes it can have, what helps, and what people try in vain.
        """
        found = load(()).search(query[:2000], MOST_FOUND)
        part, after = page_of(found, cursor, limit)
        return Records(
            records=[record_brief(one, lang) for one in part], next_cursor=after, total=len(found)
        )

    # --- what may be read

    def _may(self, path: Path) -> bool:
        return self._root is None or path.resolve().is_relative_to(self._root)

    def _check(self, path: Path) -> None:
        if not self._may(path):
            raise UsageError("that path is outside of what this server may read")

    def _run(self, name: str) -> Run:
        given = Path(name) if name else None
        if given is not None and self._root is not None:
            # Before it is looked at: what is outside must not be told apart from nothing.
            inside = (one for one in (given, runs.FOLDER / given) if self._may(one))
            given = next(inside, None)
            if given is None:
                raise UsageError("that run is outside of what this server may read")
        found = runs.find(given)
        self._check(found.path)
        return found

    def _stored(self, run: str, incident: str) -> tuple[Path, Incident]:
        place = Path(incident) if incident else self._run(run).path
        self._check(place)
        found = bundle.read(place)
        return found.path, found

    def _verdict(self, run: str, incident: str) -> Verdict:
        if not incident and (now := runs.status(self._run(run)).open):
            return now[0].verdict
        verdict = self._stored(run, incident)[1].verdict
        if verdict is None:
            raise UsageError("nothing was wrong there", hint="list_incidents shows what was")
        return verdict


def _run_brief(run: Run, status: JobStatus) -> RunBrief:
    return RunBrief(
        run=str(run.path),
        running=run.running,
        state=status.state,
        headline=cut(status_text.headline(status)),
        incidents=status.incidents,
        command=cut(" ".join(status.command), 200),
    )


def _incident_brief(path: Path) -> IncidentBrief:
    try:
        found = bundle.read(path)
    except BundleError as error:
        return IncidentBrief(incident=str(path), at="", cause="", summary=cut(error.message))
    at, verdict = str(found.about.get("written_at", "")), found.verdict
    if verdict is None:
        return IncidentBrief(incident=str(path), at=at, cause="", summary="nothing was wrong")
    return IncidentBrief(
        incident=str(path),
        at=at,
        cause=verdict.cause,
        confidence=verdict.confidence,
        culprits=[one.rank for one in verdict.culprits[:MOST_RANKS]],
        summary=cut(verdict.summary),
    )


def _live_stacks(run: Run, ranks: list[int], cursor: str, limit: int) -> Stacks:
    wanted = ranks or _worth_a_look(runs.status(run))
    part, after = page_of(wanted, cursor, limit)
    found = runs.stacks(run, part) if part else {}
    stacks = [
        _stack(rank, one["host"], one["age"], "\n\n".join(one["threads"]).splitlines())
        for rank in part
        if (one := found.get(rank))
    ]
    return Stacks(taken="live", stacks=stacks, next_cursor=after, total=len(wanted))


def _worth_a_look(status: JobStatus) -> list[int]:
    """Return the culprits and one rank that waits for them; of a healthy job, rank 0."""
    if not status.open:
        return [0]
    verdict = status.open[0].verdict
    blamed = [one.rank for one in verdict.culprits]
    waiting = [rank for rank in verdict.victims if rank not in blamed]
    return [*blamed[: MOST_RANKS - 1], *waiting[:1]] or [0]


def _stack(rank: int, host: str, age: float | None, lines: list[str]) -> RankStack:
    return RankStack(
        rank=rank,
        host=host,
        age_seconds=-1.0 if age is None else round(age, 2),
        lines=[line[:300] for line in lines[:MOST_STACK_LINES]],
        lines_left_out=max(0, len(lines) - MOST_STACK_LINES),
    )
