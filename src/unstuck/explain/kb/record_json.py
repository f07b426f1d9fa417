"""Records in the JSON shape of other collections, in both directions, without losing anything.

    {"id": …, "signature": …, "regex": …, "dead_ends": [{"action": …, "why_fails": …,
     "fail_rate": …}], "workarounds": [{"action": …, "how": …, "success_rate": …}], …}

What a record here has no place for (a rate without its count, say) stays in `Record.imported`
as it came. A field goes out as it came in unless somebody has changed the record since.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, cast

from msgspec.structs import replace

from unstuck.errors import RecordError
from unstuck.explain.kb import regex
from unstuck.explain.kb.schema import (
    Confusion,
    DeadEnd,
    Graph,
    PossibleCause,
    Rate,
    Record,
    Role,
    Text,
    Tier,
    Version,
    Workaround,
)
from unstuck.model.verdict import Cause

CONFIDENCE = {"certain": 0.95, "likely": 0.75, "possible": 0.4}
"""The number that stands for a word; a number becomes the word whose band it is in."""
_FLAGS = re.compile(r"\(\?([aiLmsux]+)\)")
_NAMED = re.compile(r"\(\?P<\w+>")
_ID = re.compile(r"[a-z0-9][a-z0-9-]*/[a-z0-9][a-z0-9-]*")
_NOT_IN_ID = re.compile(r"[^a-z0-9]+")

_Json = dict[str, Any]


def from_json(data: object) -> Record:
    """Return the record for one JSON object.

    Raises:
        RecordError: it is no such record.

    Example:
        from_json(json.loads(Path("barrier-timeout.json").read_text())).signature
    """
    if not isinstance(data, dict) or not cast("_Json", data).get("signature"):
        raise RecordError(
            "this is not a record: it has no signature",
            hint='records are JSON objects with "id", "signature", "regex", "root_cause" …',
        )
    found = dict(cast("_Json", data))
    try:
        record = _record(found)
    except (AttributeError, TypeError, ValueError) as error:
        raise RecordError(f"the record {found.get('id')} cannot be understood: {error}") from error
    return replace(record, imported=json.dumps(found, ensure_ascii=False))


def to_json(record: Record) -> _Json:
    """Return a record as a JSON object; what was imported and not changed is as it was.

    Example:
        to_json(kb.get("gloo/recv-timeout"))["workarounds"][0]["action"]
    """
    fresh = _object(record)
    if not record.imported:
        return fresh
    original = cast("_Json", json.loads(record.imported))
    before = _object(_record(original))
    kept: _Json = {
        key: value if key not in fresh or fresh[key] == before[key] else fresh[key]
        for key, value in original.items()
    }
    # What the original left out and nobody has given since stays out.
    added = {key: fresh[key] for key in fresh.keys() - kept.keys() if fresh[key] != before[key]}
    return kept | added


# --- in


def _record(data: _Json) -> Record:
    domain = _slug(_text(data, "domain")) or "pytorch"
    name = _text(data, "id")
    if not _ID.fullmatch(name):
        name = f"{domain}/{_slug(name) or _slug(_text(data, 'signature'))[:60].strip('-')}"
    signature, pattern = _text(data, "signature"), _text(data, "regex")
    usable = bool(pattern) and not regex.problem(pattern)
    meaning = Text(_text(data, "root_cause"), _text(data, "root_cause_zh"))
    tier = _text(data, "verification_tier")
    docs = _text(data, "official_doc_url")
    notes = cast("_Json", data.get("os_specific") or {})
    return Record(
        id=name,
        title=Text(signature, _text(data, "signature_zh")),
        signature=signature,
        role=Role.EITHER if usable else Role.DIAGNOSTIC,
        domain=name.partition("/")[0],
        category=_text(data, "category"),
        root_cause=meaning,
        causes=(PossibleCause(Cause.UNKNOWN, meaning),) if usable else (),
        tier=Tier(tier) if tier in set(Tier) else Tier.UNVERIFIED,
        anchors=_anchors(pattern) if usable else (),
        patterns=(pattern,) if usable else (),
        must_match=(signature,) if usable and re.search(pattern, signature) else (),
        dead_ends=tuple(_dead_end(one) for one in _list(data, "dead_ends")),
        workarounds=_workarounds(data),
        graph=_graph(data.get("transition_graph") or {}),
        versions=tuple(_version(one) for one in _list(data, "versions")),
        os_notes={system: Text(str(note), "") for system, note in notes.items()},
        aliases=tuple(map(str, _list(data, "aliases"))),
        error_code=_text(data, "error_code"),
        docs=(docs,) if docs else (),
        tags=tuple(map(str, _list(data, "tags"))),
        resolvable=_text(data, "resolvable").lower() != "false",
        confidence=_word(data.get("confidence")),
        first_seen=_text(data, "first_seen"),
        last_confirmed=_text(data, "last_confirmed"),
        last_updated=_text(data, "last_updated"),
    )


def _text(data: _Json, key: str) -> str:
    value = data.get(key)
    return "" if value is None else str(value)


def _list(data: _Json, key: str) -> list[Any]:
    return list(data.get(key) or [])


def _slug(text: str) -> str:
    return _NOT_IN_ID.sub("-", text.lower()).strip("-")


def _anchors(pattern: str) -> tuple[str, ...]:
    longest = (max(way, key=len, default="") for way in regex.expansions(pattern))
    return tuple(dict.fromkeys(anchor for anchor in longest if anchor))


def _dead_end(data: _Json) -> DeadEnd:
    return DeadEnd(
        Text(_text(data, "action"), ""),
        Text(_text(data, "why_fails"), ""),
        _condition(data),
        sources=tuple(map(str, _list(data, "sources"))),
    )


def _workarounds(data: _Json) -> tuple[Workaround, ...]:
    chinese = [str(one) for one in _list(data, "workarounds_zh")]
    found: list[Workaround] = []
    for number, one in enumerate(_list(data, "workarounds")):
        action = Text(_text(one, "action"), chinese[number] if number < len(chinese) else "")
        sources = tuple(map(str, _list(one, "sources")))
        how = Text(_text(one, "how"), "")
        found.append(Workaround(action, how, _condition(one), sources=sources))
    return tuple(found)


def _condition(data: _Json) -> Text | None:
    condition = _text(data, "condition")
    return Text(condition, "") if condition else None


def _graph(data: _Json) -> Graph:
    confused: list[_Json] = [
        cast("_Json", one) if isinstance(one, dict) else {"id": one}
        for one in _list(data, _CONFUSED)
    ]
    pairs = [(_text(one, "id"), one) for one in confused]
    return Graph(
        tuple(map(str, _list(data, "leads_to"))),
        tuple(map(str, _list(data, "preceded_by"))),
        tuple(Confusion(name, Text(_text(one, "tell"), "")) for name, one in pairs if name),
    )


_CONFUSED = "frequently_confused_with"


def _version(data: _Json) -> Version:
    change = _text(data, "behavior_change")
    return Version(_text(data, "version"), Text(change, "") if change else None)


def _word(number: object) -> str:
    if not isinstance(number, int | float):
        return "possible"
    return next((word for word, least in _BANDS if number >= least), "possible")


_BANDS = (("certain", 0.95), ("likely", 0.6))


# --- out


def _object(record: Record) -> _Json:
    helped = [_rate(one.rate) for one in record.workarounds]
    return {
        "id": record.id,
        "signature": record.signature,
        "signature_zh": record.title.zh,
        "regex": _one_regex(record.patterns),
        "domain": record.domain,
        "category": record.category,
        "subcategory": None,
        "root_cause": record.root_cause.en,
        "root_cause_type": _kind(record),
        "root_cause_zh": record.root_cause.zh,
        "versions": [_version_out(one) for one in record.versions],
        "os_specific": {name: text.en for name, text in record.os_notes.items()},
        "dead_ends": [_dead_end_out(one) for one in record.dead_ends],
        "workarounds": [_workaround_out(one) for one in record.workarounds],
        "workarounds_zh": [one.action.zh for one in record.workarounds],
        "transition_graph": {
            "leads_to": list(record.graph.leads_to),
            "preceded_by": list(record.graph.preceded_by),
            _CONFUSED: [
                {"id": one.record, "tell": one.tell.en} if one.tell.en else one.record
                for one in record.graph.confused_with
            ],
        },
        "official_doc_url": record.docs[0] if record.docs else None,
        "official_doc_section": None,
        "error_code": record.error_code or None,
        "verification_tier": str(record.tier),
        "confidence": CONFIDENCE.get(record.confidence),
        "fix_success_rate": max((rate for rate in helped if rate is not None), default=None),
        "resolvable": "true" if record.resolvable else "false",
        "first_seen": record.first_seen or None,
        "last_confirmed": record.last_confirmed or None,
        "last_updated": record.last_updated or None,
        "evidence_count": len(set(_sources(record))),
        "tags": list(record.tags),
        "locale": "en",
        "aliases": list(record.aliases),
    }


def _one_regex(patterns: tuple[str, ...]) -> str | None:
    """Join the patterns: without names, which may not occur twice, and with flags of their own."""
    if len(patterns) < 2:
        return patterns[0] if patterns else None
    parts: list[str] = []
    for pattern in patterns:
        flags = _FLAGS.match(pattern)
        body = _NAMED.sub("(?:", pattern[flags.end() if flags else 0 :])
        parts.append(f"(?{flags[1]}:{body})" if flags else f"(?:{body})")
    return "|".join(parts)


def _kind(record: Record) -> str:
    named = {one.cause for one in record.causes} - {Cause.UNKNOWN}
    return str(*named) if len(named) == 1 else "generic"


def _dead_end_out(item: DeadEnd) -> _Json:
    helped = _rate(item.rate)
    return {
        "action": item.action.en,
        "why_fails": item.why.en,
        "fail_rate": None if helped is None else round(1 - helped, 4),
        "condition": item.condition.en if item.condition else "",
        "sources": list(item.sources),
    }


def _workaround_out(item: Workaround) -> _Json:
    return {
        "action": item.action.en,
        "success_rate": _rate(item.rate),
        "how": item.how.en,
        "condition": item.condition.en if item.condition else "",
        "sources": list(item.sources),
    }


def _version_out(version: Version) -> _Json:
    return {
        "version": version.range,
        "introduced": None,
        "deprecated": None,
        "removed": None,
        "behavior_change": version.note.en if version.note else None,
        "status": "active",
    }


def _rate(rate: Rate | None) -> float | None:
    """Return a share only where its counts are known."""
    return round(rate.successes / rate.runs, 4) if rate and rate.runs else None


def _sources(record: Record) -> Iterable[str]:
    items = (record, *record.causes, *record.dead_ends, *record.workarounds)
    return (source for item in items for source in item.sources)
