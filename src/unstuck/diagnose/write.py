"""Combine findings into one verdict."""

from msgspec.structs import replace

from unstuck.diagnose.finding import Finding, HoldUp
from unstuck.diagnose.text import moment, place, ranks_text, seconds_text
from unstuck.diagnose.waits.stall import operation_phrase
from unstuck.model.doing import OVER
from unstuck.model.notice import Notice
from unstuck.model.rank import CodeLine
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Basis, Cause, Confidence, Culprit, Evidence, Role, Verdict

_MOST_EVIDENCE = 24
_MOST_LINES = 16
_MOST_NAMED = 3


def write_verdict(snapshot: Snapshot, findings: list[Finding]) -> Verdict:
    """Make one verdict: the findings of the most important cause, and further faults beside it."""
    ordered = sorted(findings, key=_weight)
    main = [finding for finding in ordered if finding.cause is ordered[0].cause]
    rest = [finding for finding in ordered if finding.cause is not ordered[0].cause]
    merged = _merge(main)
    others = tuple(
        Evidence("diagnosis", f"also: {_summary(one)} ({one.cause})", Role.ROOT) for one in rest
    )
    culprits = merged.culprits + _further_culprits(merged, rest)
    blamed = {one.rank for one in culprits}
    victims = {*merged.victims, *(rank for one in rest for rank in one.victims)}
    return Verdict(
        cause=merged.cause,
        confidence=merged.confidence,
        culprits=culprits,
        victims=tuple(sorted(victims - blamed)),
        since=moment(snapshot.taken_at - merged.seconds),
        evidence=merged.evidence + others,
        alternatives=merged.alternatives,
        summary=" Also: ".join([_summary(merged), *map(_summary, rest[:_MOST_NAMED])]),
        because=merged.because,
        stuck=merged.stuck,
        chain=merged.chain,
        stalled_seconds=merged.seconds,
        slowdown=merged.slowdown,
        made_at=moment(snapshot.taken_at),
        attempt=snapshot.attempt,
        step=max((state.step for state in snapshot.ranks), default=0),
        cut=merged.cut,
        until=moment(snapshot.taken_at) if merged.over else "",
        basis=merged.basis,
    )


def write_notice(snapshot: Snapshot, finding: Finding) -> Notice:
    """Write up a finding that is no verdict yet."""
    hold_up = finding.hold_up or HoldUp()
    return Notice(
        ranks=finding.culprits,
        waiting=finding.victims,
        stuck=finding.stuck,
        seconds=finding.seconds,
        since=moment(snapshot.taken_at - finding.seconds),
        life=hold_up.life,
        judged_in=hold_up.judged_in,
        times_out_in=hold_up.times_out_in,
        attempt=snapshot.attempt,
        step=max((state.step for state in snapshot.ranks), default=0),
    )


def _further_culprits(main: Finding, rest: list[Finding]) -> tuple[Culprit, ...]:
    """Name the ranks of further, independent faults as well, each with its own cause."""
    named = {one.rank for one in main.culprits}
    found: dict[int, Culprit] = {}
    for finding in rest:
        for one in finding.culprits:
            if one.rank not in named:
                found.setdefault(one.rank, replace(one, cause=finding.cause))
    return tuple(found[rank] for rank in sorted(found))


def _weight(finding: Finding) -> tuple[bool, int, list[int], str]:
    nameless = finding.cause is Cause.UNKNOWN and not finding.culprits
    ranks = [one.rank for one in finding.culprits]
    return (nameless, -len(finding.victims), ranks, finding.cause.value)


def _merge(findings: list[Finding]) -> Finding:
    if len(findings) == 1:
        return findings[0]
    first = findings[0]
    culprits = {one.rank: one for finding in reversed(findings) for one in finding.culprits}
    victims = {rank for finding in findings for rank in finding.victims}
    order = list(Confidence)
    return Finding(
        cause=first.cause,
        confidence=max((one.confidence for one in findings), key=order.index),
        because="; ".join(dict.fromkeys(one.because for one in findings)),
        culprits=tuple(culprits[rank] for rank in sorted(culprits)),
        victims=tuple(sorted(victims - culprits.keys())),
        seconds=max(one.seconds for one in findings),
        evidence=tuple(dict.fromkeys(e for one in findings for e in one.evidence))[:_MOST_EVIDENCE],
        alternatives=tuple(dict.fromkeys(a for one in findings for a in one.alternatives)),
        stuck=first.stuck,
        chain=tuple(dict.fromkeys(line for one in findings for line in one.chain))[:_MOST_LINES],
        summary=" ".join(dict.fromkeys(one.summary for one in findings if one.summary)),
        cut=tuple(dict.fromkeys(cut for one in findings for cut in one.cut)),
        basis=min((one.basis for one in findings), key=list(Basis).index),
    )


def _summary(finding: Finding) -> str:
    if finding.summary:
        return finding.summary
    parts = _culprits_text(finding.culprits)
    text = ", ".join(parts[:_MOST_NAMED])
    if len(parts) > _MOST_NAMED:
        text += f", and {len(parts) - _MOST_NAMED} more"
    text = text[:1].upper() + text[1:]
    count = len(finding.victims)
    if not count:
        return f"{text}."
    who = ranks_text(finding.victims) if count <= _MOST_NAMED else f"{count} ranks"
    verb = "waits" if count == 1 else "wait"
    if finding.stuck is not None:
        return f"{text}; {who} {verb} in {operation_phrase(finding.stuck)}."
    return f"{text}; {who} {'is' if count == 1 else 'are'} affected."


def _culprits_text(culprits: tuple[Culprit, ...]) -> list[str]:
    """Say what the culprits do, those that do the same together: `ranks 2,3: each …`."""
    alike: dict[str, list[int]] = {}
    for one in culprits:
        text = one.doing
        if one.file:
            text += f" at {place(CodeLine(one.file, one.line, one.function))}"
        if one.seconds:
            over, lasted = isinstance(one.activity, OVER), seconds_text(one.seconds)
            text += f", {lasted} ago" if over else f", for {lasted}"
        alike.setdefault(text, []).append(one.rank)
    return [
        f"{ranks_text(ranks)}{': each' if len(ranks) > 1 else ''} {text}"
        for text, ranks in alike.items()
    ]
