"""One record, several causes: choose by the facts that hold, or say that nothing decides."""

from collections.abc import Iterable, Mapping

from msgspec import Struct, structs

from unstuck.model.logs import LogCause, LogFact, LogRecord
from unstuck.model.verdict import Alternative, Cause, Confidence

_WEAK = {
    LogFact.ONE_ELEMENT,
    LogFact.EARLY,
    LogFact.HAD_WORKED,
    LogFact.GATHER_OP,
    LogFact.SHARD_GATHER,
    LogFact.LARGE_REDUCE,
    LogFact.SOME_SILENT,
    LogFact.RANK_0_SILENT,
    LogFact.RANK_0_ALONE,
    LogFact.TRAINING,
}
_STRONG = {
    LogFact.EARLIER_FAILURE,
    LogFact.OP_DIFFERS,
    LogFact.SIZE_DIFFERS,
    LogFact.PREPARING,
    LogFact.BRACKETED,
    LogFact.ODD_ADDRESS,
    LogFact.LINK_LOCAL,
    LogFact.LOOPBACK,
    LogFact.OUT_OF_MEMORY,
    LogFact.SHORT_LIMIT,
}
ENOUGH = 2
"""A single weak fact decides nothing for a message that may be a mere consequence: most
timeouts have it, whatever their cause."""
DOMINANT = 0.5
"""Share of the reports from which a cause is the usual one."""


class Choice(Struct, frozen=True):
    """The cause chosen for a record, and why."""

    record: LogRecord
    cause: Cause
    confidence: Confidence
    facts: tuple[LogFact, ...] = ()
    """The facts that decided."""
    alternatives: tuple[Alternative, ...] = ()


def weight(facts: Iterable[LogFact]) -> int:
    """Return how much these facts say together.

    Example:
        weight([LogFact.SOME_SILENT, LogFact.PREPARING])  # 4
    """
    return sum(1 if fact in _WEAK else 3 if fact in _STRONG else 2 for fact in facts)


def choose(
    record: LogRecord, records: Mapping[str, LogRecord], facts: frozenset[LogFact]
) -> Choice:
    """Choose among a record's causes, or among those of the refinement that fits best."""
    refined = [
        other
        for other in records.values()
        if other.refines == record.id and other.facts and facts.issuperset(other.facts)
    ]
    refined = [other for other in refined if weight(other.facts) >= ENOUGH]
    refined.sort(key=lambda other: -weight(other.facts))
    own = _among(record, facts)
    best = next(iter(refined), None)
    if best is None or weight(own.facts) > weight(best.facts):
        return own
    return _with_parents(_among(best, facts, given=best.facts), record)


def _with_parents(choice: Choice, parent: LogRecord) -> Choice:
    """Add what the general record lists to the alternatives of a refinement."""
    known = {choice.cause, *(other.cause for other in choice.alternatives)}
    more = tuple(o for o in _alternatives(parent.causes, choice.cause) if o.cause not in known)
    return structs.replace(choice, alternatives=(*choice.alternatives, *more))


def _among(record: LogRecord, facts: frozenset[LogFact], given: tuple[LogFact, ...] = ()) -> Choice:
    causes = record.causes
    enough = ENOUGH if record.role == "either" else 1
    holding = [c for c in causes if c.facts and facts.issuperset(c.facts)]
    holding.sort(key=lambda c: (-weight(c.facts), -c.reported))
    if holding and weight({*holding[0].facts, *given}) >= enough:
        best = holding[0]
        rivals = [c for c in holding if c.facts == best.facts and c.cause != best.cause]
        weak = _WEAK.issuperset({*best.facts, *given})
        sure = Confidence.POSSIBLE if rivals or weak else Confidence.LIKELY
        return _choice(record, best, sure, (*given, *best.facts))
    if causes and (len(causes) == 1 or given):
        sure = Confidence(record.confidence) if not given else Confidence.LIKELY
        return _choice(record, causes[0], sure, given)
    default = _default(record) if causes else None
    if default is not None:
        return _choice(record, default, Confidence.POSSIBLE, ())
    return Choice(
        record, Cause.UNKNOWN, Confidence.POSSIBLE, (), _alternatives(causes, Cause.UNKNOWN)
    )


def _choice(
    record: LogRecord, cause: LogCause, confidence: Confidence, facts: tuple[LogFact, ...]
) -> Choice:
    facts = tuple(dict.fromkeys(facts))
    others = _alternatives(record.causes, cause.cause)
    return Choice(record, cause.cause, confidence, facts, others)


def _default(record: LogRecord) -> LogCause | None:
    """Return the cause that stands for itself: most reports by far, or the first of a root."""
    total = sum(c.reported for c in record.causes)
    most = max(record.causes, key=lambda c: c.reported)
    rivals = [c for c in record.causes if c.reported == most.reported]
    if total >= 3 and most.reported >= DOMINANT * total and len(rivals) == 1:
        return most
    if record.role == "cascade" and record.category == "timeout" and most.reported:
        # The consequence of a timeout, of which nothing says that anybody is gone.
        return most
    if record.role == "cascade":
        # What a consequence reports is that somebody is gone.
        crash = [c for c in record.causes if c.cause is Cause.PROCESS_CRASH]
        return (crash or record.causes)[0]
    plain = [c for c in record.causes if not c.facts]
    return plain[0] if plain and record.role == "root" else None


def _alternatives(causes: Iterable[LogCause], chosen: Cause) -> tuple[Alternative, ...]:
    found: dict[Cause, Alternative] = {}
    for cause in causes:
        if cause.cause not in {chosen, Cause.UNKNOWN}:
            found.setdefault(cause.cause, Alternative(cause.cause, cause.decide_by))
    return tuple(found.values())
