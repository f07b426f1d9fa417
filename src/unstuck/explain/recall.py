"""What the knowledge base knows about a verdict on a watched job: its records, and the advice.

Records belong to it by what the culprits' own exceptions and last lines say, by how the failure
looks live, and by what other ranks printed, in this order. It is done once for each verdict that
is reported, not for every snapshot.
"""

import threading
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from msgspec.structs import replace

from unstuck.console import say
from unstuck.errors import UnstuckError
from unstuck.explain.advice.advice import advise
from unstuck.explain.advice.join import with_record
from unstuck.explain.kb import live_signs
from unstuck.explain.kb.load import KnowledgeBase, load
from unstuck.explain.kb.match import Matcher
from unstuck.explain.kb.schema import FAILURES, Record, Role
from unstuck.model.rank import RankState
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Cause, Verdict

MOST = 4
"""Records that a verdict names."""
_OWN = {Role.ROOT, Role.EITHER}
"""Roles of records that the words of a culprit may lead to."""
_MOST_RANKS = 64
"""Ranks whose last lines are looked at."""


@lru_cache(maxsize=4)
def knowledge(extra: tuple[Path, ...] = ()) -> tuple[KnowledgeBase, Matcher]:
    """Return all records and what recognises them in lines; read once."""
    kb = load(extra)
    return kb, Matcher(kb)


def prepare() -> None:
    """Read the knowledge base beside other work, so that the first verdict need not wait."""
    threading.Thread(target=_read_quietly, daemon=True).start()


def explained(verdict: Verdict, snapshot: Snapshot) -> Verdict:
    """Return a verdict with its records, and with what to do and what not to try.

    Without a usable knowledge base it has the advice alone.

    Example:
        explained(verdict, snapshot).records  # ("cuda/out-of-memory", "gloo/closed-by-peer")
    """
    verdict = advise(verdict)
    try:
        kb, matcher = knowledge()
    except UnstuckError as error:
        say(error.message)
        return verdict
    said = _by_words(verdict, snapshot, kb, matcher)
    # Where a rank's own words say what it is, nothing else that it could be is of use.
    signs = live_signs.fitting(verdict, snapshot, kb.records.values())
    fitting = [one for one in signs if not said or one.role is not Role.ROOT]
    others = _by_others(verdict, snapshot, kb, matcher)
    ids = dict.fromkeys(record.id for record in (*said, *fitting, *others))
    do, dont = with_record(verdict.do, verdict.dont, said[0] if said else None)
    return replace(verdict, records=tuple(ids)[:MOST], do=do, dont=dont)


def _read_quietly() -> None:
    try:
        knowledge()
    except UnstuckError:
        return  # said with the first verdict


def _by_words(
    verdict: Verdict, snapshot: Snapshot, kb: KnowledgeBase, matcher: Matcher
) -> list[Record]:
    """Return the records that the culprits' own words lead to, the most telling first.

    An exception that ended a culprit is the failure itself, and so are the last lines of one
    that has crashed. Else only what agrees with the verdict counts: any log has old warnings.
    """
    blamed = {one.rank for one in verdict.culprits if one.cause is None}
    states = [state for state in snapshot.ranks if state.rank in blamed][:_MOST_RANKS]
    raised = _matching((line for state in states for line in _exception(state)), kb, matcher)
    printed = _matching((line for state in states for line in state.printed), kb, matcher)
    crashed = verdict.cause is Cause.PROCESS_CRASH
    telling = [one for one in raised if one.role in _OWN]
    telling += [
        one
        for one in printed
        if one.role in _OWN and (_agrees(one, verdict) or (crashed and one.role is Role.ROOT))
    ]
    return sorted({one.id: one for one in telling}.values(), key=_is_general)


def _by_others(
    verdict: Verdict, snapshot: Snapshot, kb: KnowledgeBase, matcher: Matcher
) -> list[Record]:
    """Return the records of what ranks said that are not to blame, where they fit the verdict."""
    blamed = {one.rank for one in verdict.culprits}
    states = [state for state in snapshot.ranks if state.rank not in blamed]
    heard = [state for state in states if state.printed or state.failure][:_MOST_RANKS]
    lines = (line for state in heard for line in (*_exception(state), *state.printed))
    return [one for one in _matching(lines, kb, matcher) if _agrees(one, verdict)]


def _matching(lines: Iterable[str], kb: KnowledgeBase, matcher: Matcher) -> list[Record]:
    said = dict.fromkeys(lines)
    found = dict.fromkeys(name for line in said for name, _, _ in matcher.confirm(line))
    return [kb.records[name] for name in found if kb.records[name].role in FAILURES]


def _exception(state: RankState) -> Iterator[str]:
    """Yield the lines of the exception that ended a rank, as torchrun would show them."""
    if state.failure is not None:
        first, *rest = f"{state.failure.type}: {state.failure.message}".splitlines()
        yield f"[rank{state.rank}]: {first}"
        yield from rest


def _agrees(record: Record, verdict: Verdict) -> bool:
    causes: set[Cause] = {cause.cause for cause in record.causes}
    return verdict.cause in causes


def _is_general(record: Record) -> bool:
    """Tell whether a record is about any exception, whatever it says."""
    return (record.domain, record.category) == ("pytorch", "crash")
