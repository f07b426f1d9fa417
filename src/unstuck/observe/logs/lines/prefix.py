"""Rank, host and time of a line, from the prefixes that launchers and libraries write.

    [rank3]:[E1218 20:27:21.426415540 ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog …   torch
    [default0]:Grouping texts                                                        torchrun
    [1,13]<stdout>:node7:35:89 [5] NCCL WARN …                                       mpirun, NCCL
    (WorkerDict pid=208261, ip=10.0.0.7) …                                           Ray
    3: …        node7: …        [2025-02-08 01:17:08 TP3] …                          srun, pdsh, …

Heads are taken off one after the other until none is left.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from msgspec import Struct

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_MOST_HEADS = 8

_RANK_IN_TEXT = re.compile(r"\[(?:PG [^\]]{1,200}? )?[Rr]ank ?(\d{1,6})\]")
_CLOCK = r"(?P<clock>\d\d:\d\d:\d\d)"
_ISO = (
    rf"(?P<year>\d{{4}})-(?P<month>\d\d)-(?P<day>\d\d)[T _-]{_CLOCK}"
    r"(?:[.,](?P<fraction>\d+))?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)


class Prefix(Struct, frozen=True):
    """What precedes the message."""

    body: str
    rank: int | None = None
    host: str = ""
    time: float | None = None


def clean(text: str) -> str:
    """Take colour codes and control characters out of a line.

    Example:
        clean("\\x1b[31mfailed\\x1b[0m")  # "failed"
    """
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return _CONTROL.sub("", text)


def parse(text: str, year: int = 2000) -> Prefix:
    """Split a clean line into its prefix and its message; `year` is for times without one.

    Example:
        parse("[rank3]: Traceback (most recent call last):").rank  # 3
    """
    rank, host, time = None, "", None
    rest = text.lstrip("> \t") if text[:1] == ">" else text
    for _ in range(_MOST_HEADS):
        match = next((match for head in _HEADS if (match := head.match(rest))), None)
        if match is None:
            break
        said = match.groupdict()
        rank = rank or said.get("rank")
        host = host or (said.get("host") or "").strip("[]")
        time = _unix(said, year) if time is None and "day" in said else time
        rest = rest[match.end() :]
    if rank is None and (inside := _RANK_IN_TEXT.search(rest)):
        rank = inside[1]
    return Prefix(rest, None if rank is None else int(rank), host, time)


def _unix(said: Mapping[str, str | None], default_year: int) -> float | None:
    """Return the moment that a head names; None where there is no such day or time."""
    year, month = said.get("year") or str(default_year), said["month"] or ""
    century = 2000 if len(year) == 2 else 0
    number = _MONTHS.index(month) + 1 if month in _MONTHS else int(month)
    clock = map(int, (said["clock"] or "").split(":"))
    try:
        day = datetime(century + int(year), number, int(said["day"] or 0), *clock, tzinfo=UTC)
    except ValueError:
        return None
    moment = day.timestamp() + float(f"0.{said.get('fraction') or 0}")
    zone = said.get("zone") or "Z"
    if zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[-2:])
        moment -= (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)
    return moment


_HEADS = tuple(
    re.compile(head)
    for head in (
        r"\s+",
        r"\[(?:rank|default|RANK |Rank |rank=)(?P<rank>\d{1,6})\]:?[ ]?",
        r"\[\d{1,7}\] (?=\[rank)",
        r"\[\d+,(?P<rank>\d{1,6})\]<std(?:out|err)>:[ ]?",
        rf"\[?{_ISO}(?: (?:TP|DP|PP|EP)(?P<rank>\d+)(?: \w+)*)?\]?(?: -)?[ ]?",
        rf"\[?[IWEFD](?P<month>\d\d?)(?P<day>\d\d) {_CLOCK}(?:\.(?P<fraction>\d+))?(?=[ \]])",
        r"(?:\[(?P<rank>\d{1,6})\])?(?P<host>[\w.-]+):\d+:\d+ \[-?\d+\][ ]?",
        r"\([\w.:()\[\] -]{0,120}?pid=\d+(?:, ip=(?P<host>[^)\s]+))?\)[ ]?",
        rf"\[?(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d\d) {_CLOCK}\]?[ ]?",
        rf"(?P<month>{'|'.join(_MONTHS)}) +(?P<day>\d\d?) {_CLOCK}(?= )",
        rf"(?:ERROR|INFO|WARNING|WARN) (?P<month>\d\d)-(?P<day>\d\d) {_CLOCK} ",
        r"(?P<rank>\d{1,5}) ?:(?!\d)[ ]?(?=\S)",
        r"\w{6,16} \[rank=(?P<rank>\d{1,6})\] \|\|[ ]?",
        r"(?P<host>(?:\d{1,3}\.){3}\d{1,3}):[ ]",
        r"(?P<host>(?!\w*(?:Error|Exception):)[A-Za-z][A-Za-z_.-]*\d[\w.-]*):(?:[ ]|$)",
    )
)
"""What a line can begin with; the names of the groups say what a head tells."""
