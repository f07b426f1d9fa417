"""Lines that look like failures and are in no record: alike ones together, by their template."""

import re

from msgspec import Struct

from unstuck.model.logs import LogLine
from unstuck.observe.logs.find.literals import Literal

MOST_CLUSTERS = 200

WORDS = tuple(
    Literal(word)
    for word in (
        b"Error", b"ERROR", b"Exception", b"FATAL", b"Fatal ", b"CRITICAL", b"NCCL WARN",
        b"Segmentation fault", b"core dumped", b"Killed", b"panic:", b"terminate called",
    )
)  # fmt: skip
"""Every line that is looked at contains one of these."""

_EXCEPTION = re.compile(
    r"^(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit))(?::|\s*$)"
)
_FAILURE = re.compile(
    r"\b(?:ERROR|FATAL|CRITICAL)\b|^Fatal |\bNCCL WARN\b|Segmentation fault|core dumped"
    r"|^\W*Killed\W*$|\bpanic:|^terminate called"
)
_QUIET = re.compile(
    r"\bno errors?\b|\b0 errors?\b|\berrors?[=:]\s*(?:0(?![.\d])|none\b|false\b)|ignore_errors"
    r"|on_error",
    re.IGNORECASE,
)
_SAME = (
    (re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{12,}\b"), "<hex>"),
    (re.compile(r"(?:/[\w.+-]+){2,}/?"), "<path>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"), "<ip>"),
    (re.compile(r"\d+(?:\.\d+)?"), "<n>"),
)


class Cluster(Struct):
    """Failure-looking lines of one template; `first` is the earliest read."""

    template: str
    first: LogLine
    exception: str = ""
    """The exception's type where the line ends a traceback."""
    count: int = 1
    ranks: list[int] = []


def looks_failed(body: str) -> bool:
    """Tell whether a message reads like a failure rather than like talk about one."""
    if _QUIET.search(body):
        return False
    return bool(_EXCEPTION.match(body) or _FAILURE.search(body))


def exception(body: str) -> str:
    """Return the exception's type that a message begins with, or nothing.

    Example:
        exception("ValueError: bad batch")  # "ValueError"
    """
    match = _EXCEPTION.match(body)
    return match["type"] if match else ""


def template(body: str) -> str:
    """Return the line with what varies taken out."""
    text = body[:400]
    for pattern, name in _SAME:
        text = pattern.sub(name, text)
    return " ".join(text.split())


class Clusters:
    """Collects unknown failures; holds a bounded number of templates."""

    def __init__(self) -> None:
        self.found: dict[str, Cluster] = {}

    def add(self, line: LogLine, body: str) -> None:
        """Count one line in the cluster of its template."""
        key = template(body)
        cluster = self.found.get(key)
        if cluster is None:
            if len(self.found) >= MOST_CLUSTERS:
                return
            cluster = Cluster(key, line, exception(body), count=0, ranks=[])
            self.found[key] = cluster
        cluster.count += 1
        if line.rank is not None and line.rank not in cluster.ranks:
            cluster.ranks.append(line.rank)
