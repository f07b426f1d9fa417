"""Turn a line that matches no record into the draft of a record.

What differs from run to run (numbers, addresses, paths, quoted names) becomes part of the
pattern; the rest stays literal and provides the anchor. What only a person can know is left
empty and marked, so that a draft does not pass `unstuck kb check` as it is.
"""

import re
import string
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from unstuck.explain.kb.rules import SHORTEST
from unstuck.observe.logs.lines import prefix

LONGEST_LINE = 2000
_SKELETON = Path(__file__).with_name("draft.toml")
_LEVEL = re.compile(
    r"""\A(?:
      \[[EWIF]\ [^\]]*\]                                  # glog without a time
    | [\w./-]+:\d+\]                                     # the end of glog with one
    | (?:INFO|ERROR|WARNING|WARN|CRITICAL|DEBUG)[ :]
    )\s*""",
    re.VERBOSE,
)
"""What remains in front of a message when rank, host and time are removed."""


class Kind(NamedTuple):
    """Something that varies: how it looks in the line, and what matches any of its kind."""

    seen: str
    pattern: str = ""
    """Empty: the same."""
    name: str = ""


_ADDRESS = r"\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?"
_PATH = r"~?(?:/[\w.+@-]{1,60}){2,12}"
_FLOAT = r"\d{1,9}\.\d{1,9}(?:[eE][+-]?\d{1,3})?"

KINDS = (
    Kind(r"0x[0-9a-fA-F]{1,32}"),
    Kind(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", r"[0-9a-f-]{36}"),
    Kind(rf"\b{_ADDRESS}\b", _ADDRESS, "addr"),
    Kind(rf"(?<![\w.]){_PATH}", _PATH, "path"),
    Kind(r"'[^']{1,200}'"),
    Kind(r'"[^"]{1,200}"'),
    Kind(r"(?i:(?<=\brank )|(?<=\brank=)|(?<=\brank: ))\d{1,7}", r"\d{1,7}", "rank"),
    Kind(r"\d{1,12}(?= ?ms\b| milliseconds)", r"\d{1,12}", "timeout_ms"),
    Kind(r"(?<=pid )\d{1,10}|(?<=pid=)\d{1,10}", r"\d{1,10}", "pid"),
    Kind(r"\b[0-9a-f]{12,64}\b", r"[0-9a-f]{12,64}"),
    Kind(_FLOAT),
    Kind(r"\d{1,20}"),
)
"""Tried in this order. What a pattern matches is bounded as what was seen, and ends where the
text around it begins, so that a draft matches its own line and never takes long."""

_ANY_KIND = re.compile("|".join(f"(?P<k{n}>{kind.seen})" for n, kind in enumerate(KINDS)))

DOMAINS = ("hccl", "nccl", "gloo", "tcpstore", "torchrun", "dataloader", "cuda", "ray")
_LAUNCHER = re.compile("rendezvous|elastic")


class Template(NamedTuple):
    """A line, and the same without what varies."""

    line: str
    signature: str
    pattern: str
    anchor: str


def template(line: str) -> Template:
    """Separate what stays in a line from what varies.

    Example:
        template("[rank3]: shard 7 of /data/a/b is short by 12 bytes").signature
        # "shard … of … is short by … bytes"
    """
    first = next((part for part in line.splitlines() if part.strip()), "")
    whole = prefix.clean(first)[:LONGEST_LINE]
    text = (_LEVEL.sub("", prefix.parse(whole).body, count=1) or whole).strip()
    literals: list[str] = []
    pattern, place, used = "", 0, set[str]()
    for match in _ANY_KIND.finditer(text):
        literals.append(text[place : match.start()])
        pattern += re.escape(literals[-1]) + _group(KINDS[_number(match)], used)
        place = match.end()
    literals.append(text[place:])
    pattern = (pattern + re.escape(literals[-1])).replace(r"\ ", " ")
    return Template(whole, "…".join(literals), pattern, max(literals, key=len).strip())


def draft(line: str, record_id: str = "") -> str:
    """Return the draft of a record for this line, as TOML.

    Example:
        draft("RuntimeError: shard 7 of /data/a is short", "data/short-shard")
    """
    made = template(line)
    record_id = record_id or f"{_domain(made.line)}/{_slug(made.anchor)}"
    too_short = "  # missing: a longer anchor; the line has no literal that is long enough"
    return string.Template(_SKELETON.read_text(encoding="utf-8")).substitute(
        path=record_id,
        id=_quote(record_id),
        domain=_quote(record_id.partition("/")[0]),
        signature=_quote(made.signature),
        anchor=_quote(made.anchor),
        too_short=too_short if len(made.anchor) < SHORTEST else "",
        pattern=_quote(made.pattern),
        line=_quote(made.line),
        today=datetime.now(UTC).date().isoformat(),
    )


def _number(match: re.Match[str]) -> int:
    return int((match.lastgroup or "k0")[1:])


def _group(kind: Kind, used: set[str]) -> str:
    pattern = kind.pattern or kind.seen
    if not kind.name or kind.name in used:
        return pattern
    used.add(kind.name)
    return f"(?P<{kind.name}>{pattern})"


def _domain(line: str) -> str:
    lowered = _LAUNCHER.sub("torchrun", line.lower())
    return next((domain for domain in DOMAINS if domain in lowered), "pytorch")


def _slug(anchor: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", anchor.lower())[:6]) or "unnamed"


def _quote(text: str) -> str:
    """Return a TOML string, a literal one if possible: patterns are full of backslashes."""
    if "'" not in text:
        return f"'{text}'"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
