"""What an incident report contains, whatever it looks like."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from unstuck.explain.view.job_view import JobView, view_job
from unstuck.explain.view.rank_view import RankView, view_rank
from unstuck.explain.view.stack_tree import StackTree, merge_stacks
from unstuck.explain.view.waiting import Picture, picture
from unstuck.model.snapshot import Snapshot
from unstuck.model.timeouts import JobSettings
from unstuck.model.verdict import Verdict

SCHEMA = "unstuck.report/1"
MOST_RANKS = 4
"""Ranks that are shown in detail: culprits first, else ranks that wait."""


class Report(Struct, frozen=True):
    """One incident, ready to be shown."""

    title: str
    """`incident-1 of runs/7`, as a reader would look it up."""
    verdict: Verdict | None
    job: JobView
    waiting: Picture
    stacks: StackTree
    ranks: tuple[RankView, ...]
    """The ranks that a reader wants to see in detail, each beside a healthy one."""
    command: tuple[str, ...] = ()
    written_at: str = ""
    unstuck: str = ""
    timeouts: JobSettings | None = None
    ledger: tuple[Mapping[str, Any], ...] = ()
    """What was done about it, and about earlier incidents of the run."""
    schema: str = SCHEMA


def contents(
    snapshot: Snapshot,
    verdict: Verdict | None,
    about: Mapping[str, Any],
    *,
    title: str = "incident",
    timeouts: JobSettings | None = None,
    ledger: tuple[Mapping[str, Any], ...] = (),
) -> Report:
    """Gather what a report shows; `about` is what the bundle says of itself.

    Example:
        contents(incident.snapshot, incident.verdict, incident.about, title="incident-1")
    """
    command: Sequence[Any] = about.get("command") or ()
    return Report(
        title=title,
        verdict=verdict,
        job=view_job(snapshot, verdict),
        waiting=picture(snapshot, verdict),
        stacks=merge_stacks(snapshot),
        ranks=tuple(view_rank(snapshot, rank, verdict) for rank in _interesting(snapshot, verdict)),
        command=tuple(map(str, command)),
        written_at=str(about.get("written_at", "")),
        unstuck=str(about.get("unstuck", "")),
        timeouts=timeouts,
        ledger=ledger,
    )


def _interesting(snapshot: Snapshot, verdict: Verdict | None) -> list[int]:
    if verdict is None:
        return [state.rank for state in snapshot.ranks[:1]]
    blamed = list(dict.fromkeys(one.rank for one in verdict.culprits))
    waiting = (verdict.stuck.waiting if verdict.stuck else ()) or verdict.victims
    return (blamed or list(waiting[:1]))[:MOST_RANKS]
