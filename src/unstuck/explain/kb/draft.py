"""Turn a line that no record knows into the skeleton of a record.

What differs from run to run (numbers, addresses, paths, names in quotes) becomes part of
the pattern; the rest stays literal and gives the anchor. What only a person can know is
left empty and marked, so that the skeleton does not pass `unstuck kb check` as it is.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from unstuck.explain.kb.rules import SHORTEST

LONGEST_LINE = 2000
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_PREFIX = re.compile(
    r"""(?:
      \[?\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\]?   # a moment
    | \[(?:rank|default)\d+\]:                                 # torchrun
    | \d{1,7}:\ (?=\S)                                         # srun --label
    | \([\w.]*\ ?pid=\d+[^)]*\)                                # Ray
    | \[[EWIF]\d*\ [^\]]*\]                                    # glog
    | [\w.-]+:\d+:\d+\ \[\d+\]                                 # NCCL
    | (?:INFO|ERROR|WARNING|WARN|CRITICAL|DEBUG)[ :]
    )\s*""",
    re.VERBOSE,
)


class Kind(NamedTuple):
    """Something that varies: how to see it in the line, and how to match any of its like."""

    seen: str
    pattern: str
    name: str = ""


KINDS = (
    Kind(r"0x[0-9a-fA-F]{1,32}", r"0x[0-9a-fA-F]{1,32}"),
    Kind(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", r"[0-9a-f-]{36}"),
    Kind(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b", r"[\d.:]{7,21}", "addr"),
    Kind(r"(?<![\w.])~?(?:/[\w.+@-]{1,60}){2,12}", r"[^\s:,]{1,800}", "path"),
    Kind(r"'[^']{1,200}'", r"'[^']{0,200}'"),
    Kind(r'"[^"]{1,200}"', r'"[^"]{0,200}"'),
    Kind(r"(?i:(?<=\brank )|(?<=\brank=)|(?<=\brank: ))\d{1,7}", r"\d{1,7}", "rank"),
    Kind(r"\d{1,12}(?= ?ms\b| milliseconds)", r"\d{1,12}", "timeout_ms"),
    Kind(r"(?<=pid )\d{1,10}|(?<=pid=)\d{1,10}", r"\d{1,10}", "pid"),
    Kind(r"\b[0-9a-f]{12,64}\b", r"[0-9a-f]{12,64}"),
    Kind(r"\d{1,9}\.\d{1,9}(?:[eE][+-]?\d{1,3})?", r"[\d.eE+-]{1,24}"),
    Kind(r"\d{1,20}", r"\d{1,20}"),
)
"""Tried in this order at each place; bounded alike, so that the pattern matches its own line."""

_ANY_KIND = re.compile("|".join(f"(?P<k{n}>{kind.seen})" for n, kind in enumerate(KINDS)))

DOMAINS = (
    ("hccl", "hccl"),
    ("nccl", "nccl"),
    ("gloo", "gloo"),
    ("tcpstore", "tcpstore"),
    ("rendezvous", "torchrun"),
    ("elastic", "torchrun"),
    ("dataloader", "dataloader"),
    ("cuda", "cuda"),
    ("ray", "ray"),
)


class Template(NamedTuple):
    """A line with what varies in it taken out."""

    line: str
    signature: str
    pattern: str
    anchor: str


def template(line: str) -> Template:
    """Take a line apart into what stays and what varies.

    Example:
        template("[rank3]: shard 7 of /data/a/b is short by 12 bytes").signature
        # "shard … of … is short by … bytes"
    """
    first = next((part for part in line.splitlines() if part.strip()), "")
    whole = _CONTROL.sub("", _ANSI.sub("", first))[:LONGEST_LINE]
    text = _without_prefix(whole).strip()
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
    """Return the skeleton of a record for this line, as TOML.

    Example:
        draft("RuntimeError: shard 7 of /data/a is short", "data/short-shard")
    """
    made = template(line)
    record_id = record_id or f"{_domain(made.line)}/{_slug(made.anchor)}"
    return "\n".join(_lines(made, record_id)) + "\n"


def _lines(made: Template, record_id: str) -> Iterator[str]:
    today = datetime.now(UTC).date().isoformat()
    yield "# A draft. Fill in what is marked `missing`, then run `unstuck kb check DIR`."
    yield f"# It belongs in DIR/{record_id}.toml"
    yield f"id = {_quote(record_id)}"
    yield f"signature = {_quote(made.signature)}"
    yield 'role = ""  # missing: root, cascade, either, diagnostic or harmless'
    yield f"domain = {_quote(record_id.partition('/')[0])}"
    yield 'category = ""  # missing: timeout, mismatch, rendezvous, network, crash, memory …'
    yield 'tier = "unverified"  # reported once there are sources, reproduced once you made it fail'
    if len(made.anchor) < SHORTEST:
        yield "# missing: an anchor; the line has no literal that is long enough"
    yield f"anchors = [{_quote(made.anchor)}]"
    yield f"patterns = [{_quote(made.pattern)}]"
    yield f"must_match = [{_quote(made.line)}]"
    yield "must_not_match = []  # missing: a line that looks like it and is something else"
    yield "sources = []  # missing: links, or how you know; needed from tier reported on"
    yield f'first_seen = "{today}"'
    yield f'last_updated = "{today}"'
    yield ""
    for name, what in (("title", "a few words"), ("root_cause", "what it means")):
        yield f"[{name}]  # missing: {what}, in both languages"
        yield 'en = ""'
        yield 'zh = ""'
        yield ""
    yield "[[causes]]  # missing: one for each cause it can have; none if it is harmless"
    yield 'cause = "unknown"'
    yield 'evidence = { en = "", zh = "" }  # missing: what tells this cause from the others'
    yield ""
    yield "[[dead_ends]]  # missing: what people try in vain, or remove this"
    yield 'action = { en = "", zh = "" }'
    yield 'why = { en = "", zh = "" }'
    yield ""
    yield "[[workarounds]]  # missing: what helps, or remove this"
    yield 'action = { en = "", zh = "" }'
    yield 'how = { en = "", zh = "" }'


def _without_prefix(line: str) -> str:
    while match := _PREFIX.match(line):
        if match.end() == len(line):
            break
        line = line[match.end() :]
    return line


def _number(match: re.Match[str]) -> int:
    return int((match.lastgroup or "k0")[1:])


def _group(kind: Kind, used: set[str]) -> str:
    if not kind.name or kind.name in used:
        return kind.pattern
    used.add(kind.name)
    return f"(?P<{kind.name}>{kind.pattern})"


def _domain(line: str) -> str:
    lowered = line.lower()
    return next((domain for word, domain in DOMAINS if word in lowered), "pytorch")


def _slug(anchor: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", anchor.lower())[:6]) or "unnamed"


def _quote(text: str) -> str:
    """Return a TOML string: literal where possible, because patterns are full of backslashes."""
    if "'" not in text:
        return f"'{text}'"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
