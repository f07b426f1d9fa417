"""The rules for a single record: texts, patterns, claims, dates."""

import builtins
import re
from collections.abc import Iterator
from datetime import date
from typing import cast

import msgspec

from unstuck.explain.kb import hostile, regex
from unstuck.explain.kb.live_signs import KINDS
from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.match import Matcher
from unstuck.explain.kb.schema import DeadEnd, Rate, Record, Role, Text, Tier, Workaround
from unstuck.model.verdict import Cause

Finding = tuple[str, str]
"""A field and what is wrong with it."""

SHORTEST = 8
"""Characters of the shortest literal that is specific enough."""

COMMON = {name.lower() for name, value in vars(builtins).items() if isinstance(value, type)} | {
    "connection refused",
    "connection reset by peer",
    "connection timed out",
    "fatalerror",
    "no such file or directory",
    "out of memory",
    "permission denied",
    "segmentation fault",
    "timed out",
    "timeout error",
    "torch.distributed",
    "traceback",
    "traceback (most recent call last)",
}
"""Text that is in any log, such as the names of Python's own exceptions: no anchor by itself."""

CONFIDENCES = ("certain", "likely", "possible")
_ID = re.compile(r"[a-z0-9][a-z0-9-]*/[a-z0-9][a-z0-9-]*")
_CJK = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")
_ANY_CJK = re.compile(r"[\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff\uff00-\uffef]")
_QUOTED = re.compile(r"`[^`]*`|“[^”]*”|「[^」]*」|\"[^\"]*\"")
_ENGLISH_SENTENCE = re.compile(r"(?:[A-Za-z][A-Za-z'-]*[,;:]? ){9}[A-Za-z]")


def check_record(record: Record) -> list[Finding]:
    """Return what is wrong with one record.

    Example:
        check_record(record)   # [("dead_ends[0].why.zh", "is empty")]
    """
    return [finding for rule in RULES for finding in rule(record)]


def short(line: str, most: int = 100) -> str:
    """Return enough of a line to recognise it by."""
    return line if len(line) <= most else line[: most - 1] + "…"


def texts(value: object, field: str = "") -> Iterator[tuple[str, Text]]:
    """Yield every text of a record in both languages, with its place."""
    if isinstance(value, Text):
        yield field, value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from texts(getattr(value, name), f"{field}.{name}".lstrip("."))
    elif isinstance(value, tuple):
        for number, item in enumerate(cast("tuple[object, ...]", value)):
            yield from texts(item, f"{field}[{number}]")
    elif isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            yield from texts(item, f"{field}.{key}")


def identity(record: Record) -> Iterator[Finding]:
    """Check id, domain, signature, and the words that the schema does not check."""
    if not _ID.fullmatch(record.id):
        yield "id", f"{record.id!r} is not <domain>/<slug> in lower-case letters, digits and dashes"
    elif record.domain != record.id.partition("/")[0]:
        yield "domain", f"is {record.domain}, but the id begins with {record.id.partition('/')[0]}"
    for name in ("signature", "category"):
        if not getattr(record, name).strip():
            yield name, "is empty"
    if record.confidence not in CONFIDENCES:
        yield "confidence", f"is {record.confidence!r}, must be {', '.join(CONFIDENCES)}"
    for name in ("aliases", "tags", "docs"):
        if any(not item.strip() for item in getattr(record, name)):
            yield name, "has an empty entry"


def languages(record: Record) -> Iterator[Finding]:
    """Check that every text is there in both languages."""
    for field, text in texts(record):
        if not text.en.strip():
            yield f"{field}.en", "is empty"
        elif _ANY_CJK.search(text.en):
            yield f"{field}.en", "contains Chinese characters"
        if not text.zh.strip():
            yield f"{field}.zh", "is empty"
        elif text.zh.strip() == text.en.strip() or not _CJK.search(text.zh):
            yield f"{field}.zh", "is not Chinese"
        elif _ENGLISH_SENTENCE.search(_QUOTED.sub("", text.zh)):
            yield f"{field}.zh", "contains an English sentence; quote it or translate it"


def shape(record: Record) -> Iterator[Finding]:
    """Check that a record has patterns, or facts if it refines another record."""
    if record.refines:
        yield from _refinement(record)
        return
    if record.facts:
        yield "facts", "is only for records that refine another; put facts into the causes"
    if record.patterns:
        empty = (n for n in ("anchors", "must_match", "must_not_match") if not getattr(record, n))
        yield from ((name, "is empty") for name in empty)
    elif record.anchors or record.must_match:
        yield "patterns", "is empty, but there are anchors or lines to match"
    elif not (record.aliases and (record.graph.leads_to or record.graph.confused_with)):
        yield "patterns", "is empty: then aliases and links to other records are needed"


def _refinement(record: Record) -> Iterator[Finding]:
    for name in ("patterns", "anchors", "must_match", "must_not_match"):
        if getattr(record, name):
            yield name, f"must be empty: {record.refines} is matched, and this record refines it"
    if not record.facts:
        yield "facts", f"is empty: nothing distinguishes it from {record.refines}"


def anchors(record: Record) -> Iterator[Finding]:
    """Check that the anchors are specific and that lines contain them."""
    for number, anchor in enumerate(record.anchors):
        if why := _poor_anchor(anchor):
            yield f"anchors[{number}]", why
        elif not any(anchor.lower() in line.lower() for line in record.must_match):
            yield f"anchors[{number}]", f"{anchor!r} is in no line of must_match"


def _poor_anchor(anchor: str) -> str:
    bare = anchor.strip().lower()
    if "\n" in anchor or "\r" in anchor:
        return "has a line break: anchors and patterns see one line"
    if len(anchor.strip()) < SHORTEST:
        return f"{anchor!r} is shorter than {SHORTEST} characters"
    if bare.strip(":. ") in COMMON or (bare.isalpha() and anchor.strip().islower()):
        return f"{anchor!r} is in any log: use more of the message"
    return ""


def patterns(record: Record) -> Iterator[Finding]:
    """Check that every pattern is safe, specific, found by an anchor, and used by a line."""
    for number, pattern in enumerate(record.patterns):
        field = f"patterns[{number}]"
        if why := regex.problem(pattern):
            yield field, why
            continue
        seconds = hostile.slowest(pattern, record.must_match[:2])
        if seconds > hostile.SLOWEST:
            yield field, f"takes {seconds:.2f} s on a hostile line: bound its repeats"
        ways = regex.expansions(pattern)
        if any(max(map(len, way), default=0) < SHORTEST for way in ways):
            yield field, f"requires no literal of {SHORTEST} characters: it would match anything"
        for way in [way for way in ways if not _anchored(way, record, pattern)][:1]:
            needed = max(way, key=len, default="")
            yield field, f"can match a line without any of the anchors, only {needed!r}"
        if not any(re.search(pattern, line) for line in record.must_match):
            yield field, "matches no line of must_match"


def _anchored(way: tuple[str, ...], record: Record, pattern: str) -> bool:
    if regex.ignores_case(pattern):
        return any(a.lower() in part.lower() for part in way for a in record.anchors)
    return any(anchor in part for part in way for anchor in record.anchors)


def lines(record: Record) -> Iterator[Finding]:
    """Check that the record matches the lines it must, and none that it must not."""
    if any(regex.problem(pattern) for pattern in record.patterns):
        return
    matcher = Matcher(KnowledgeBase([record]))
    for name, wanted in (("must_match", True), ("must_not_match", False)):
        for number, line in enumerate(getattr(record, name)):
            field = f"{name}[{number}]"
            if not line.strip():
                yield field, "is empty"
            elif "\n" in line:
                yield field, "has several lines; patterns see one"
            elif bool(matcher.confirm(line)) is not wanted:
                says = "is not matched" if wanted else "is matched"
                yield field, f"{says} by this record: {short(line)}"


def causes(record: Record) -> Iterator[Finding]:
    """Check that failures have causes, harmless lines have none, and counts have sources."""
    named = [cause.cause for cause in record.causes if cause.cause is not Cause.UNKNOWN]
    if record.role in (Role.HARMLESS, Role.DIAGNOSTIC):
        if named:
            yield (
                "causes",
                f"a {record.role} record must not name causes: {', '.join(named)}",
            )
    elif not record.causes and not (record.role is Role.CASCADE and record.graph.preceded_by):
        yield "causes", "is empty: list the causes, or what precedes a cascade"
    for number, cause in enumerate(record.causes):
        if cause.reported < 0:
            yield f"causes[{number}].reported", "is negative"
        if cause.reported and not cause.sources and record.tier is not Tier.UNVERIFIED:
            yield f"causes[{number}].sources", f"{cause.reported} reports without a source"


def claims(record: Record) -> Iterator[Finding]:
    """Check that dead ends and workarounds have a source, and say more than their title."""
    for name in ("dead_ends", "workarounds"):
        items: tuple[DeadEnd | Workaround, ...] = getattr(record, name)
        for number, item in enumerate(items):
            field = f"{name}[{number}]"
            detail = ("why", item.why) if isinstance(item, DeadEnd) else ("how", item.how)
            if detail[1].en.strip() == item.action.en.strip() != "":
                yield f"{field}.{detail[0]}", "repeats the action"
            if not item.sources and record.tier is not Tier.UNVERIFIED:
                yield f"{field}.sources", "is empty: every claim needs a source"
            if item.rate:
                yield from _rate(f"{field}.rate", item.rate, sourced=bool(item.sources))


def _rate(field: str, rate: Rate, *, sourced: bool) -> Iterator[Finding]:
    if rate.runs <= 0:
        yield f"{field}.runs", "must be more than 0"
    elif not 0 <= rate.successes <= rate.runs:
        yield f"{field}.successes", f"is {rate.successes} of {rate.runs} runs"
    if rate.kind not in ("measured", "reported"):
        yield f"{field}.kind", f"is {rate.kind!r}, must be measured or reported"
    elif rate.kind == "measured" and not (rate.scenario and rate.torch):
        yield field, "is measured: give the scenario and the torch version"
    elif rate.kind == "reported" and not sourced:
        yield field, "counts reports without links"


def sources(record: Record) -> Iterator[Finding]:
    """Check that the record has the sources that its tier requires."""
    named = [*record.sources, *(s for item in record.causes for s in item.sources)]
    named += [s for item in (*record.dead_ends, *record.workarounds) for s in item.sources]
    if any(not source.strip() for source in named):
        yield "sources", "has an empty entry"
    if not named and record.tier is not Tier.UNVERIFIED:
        yield "sources", f"is empty, but the tier is {record.tier}"
    rates = [item.rate for item in (*record.dead_ends, *record.workarounds) if item.rate]
    if record.tier is Tier.MEASURED and not any(rate.kind == "measured" for rate in rates):
        yield "tier", "is measured, but the record has no measured rate"


def live_signs(record: Record) -> Iterator[Finding]:
    """Check that what a live verdict is compared with can be in one."""
    for number, sign in enumerate(record.live):
        field = f"live[{number}]"
        if not sign.causes:
            yield f"{field}.causes", "is empty"
        for kind in sign.doing:
            if kind.partition(":")[0] not in KINDS:
                yield f"{field}.doing", f"there is no activity {kind!r}"
        for name in ("ops", "backends", "code"):
            if any(word != word.lower() or not word.strip() for word in getattr(sign, name)):
                yield f"{field}.{name}", "must be in lower case"


def dates(record: Record) -> Iterator[Finding]:
    """Check that dates are ISO dates, in order."""
    known: list[date] = []
    for name in ("first_seen", "last_confirmed", "last_updated"):
        value = getattr(record, name)
        try:
            known += [date.fromisoformat(value)] if value else []
        except ValueError:
            yield name, f"is {value!r}, must be a date such as 2026-05-20"
    if known and known[0] != min(known):
        yield "first_seen", "is later than the other dates"


RULES = (
    identity,
    languages,
    shape,
    anchors,
    patterns,
    lines,
    causes,
    claims,
    sources,
    live_signs,
    dates,
)
