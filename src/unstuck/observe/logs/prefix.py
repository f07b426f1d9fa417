"""Rank, host and time of a line, from the prefixes that launchers and libraries write.

    [rank3]:[E1218 20:27:21.426415540 ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog …   torch
    [default0]:Grouping texts                                                        torchrun
    [1,13]<stdout>:node7:35:89 [5] NCCL WARN …                                       mpirun, NCCL
    (WorkerDict pid=208261, ip=10.0.0.7) …                                           Ray
    3: …        node7: …        [2025-02-08 01:17:08 TP3] …                          srun, pdsh, …

Heads are taken off one after the other until none is left.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime

from msgspec import Struct

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_HEADS = 8

_RANK_IN_TEXT = re.compile(r"\[(?:PG [^\]]{1,200}? )?[Rr]ank ?(\d{1,6})\]")
_ISO = r"(\d{4})-(\d\d)-(\d\d)[T _-](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:?\d\d)?"


class Prefix(Struct, frozen=True):
    """What stands before the message."""

    body: str
    rank: int | None = None
    host: str = ""
    time: float | None = None
    pid: int = 0


class _Found:
    """Collects while heads are taken off; the first finding of each kind stays."""

    def __init__(self, year: int) -> None:
        self.year = year
        self.rank: int | None = None
        self.host = ""
        self.time: float | None = None
        self.pid = 0

    def set_rank(self, rank: int) -> None:
        if self.rank is None:
            self.rank = rank

    def set_time(self, *parts: int, fraction: str = "", zone: str = "") -> None:
        if self.time is None:
            self.time = _unix(parts, fraction, zone)


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
    found = _Found(year)
    rest = text.lstrip("> \t") if text[:1] == ">" else text
    for _ in range(_HEADS):
        for pattern, take in _RULES:
            if match := pattern.match(rest):
                take(found, match)
                rest = rest[match.end() :]
                break
        else:
            break
    if found.rank is None and (inside := _RANK_IN_TEXT.search(rest)):
        found.rank = int(inside.group(1))
    return Prefix(rest, found.rank, found.host, found.time, found.pid)


def _unix(parts: tuple[int, ...], fraction: str, zone: str) -> float | None:
    try:
        moment = datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[arg-type]
    except ValueError:
        return None
    if fraction:
        moment += float(f"0.{fraction}")
    if zone and zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[-2:])
        moment -= (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)
    return moment


def _rank(found: _Found, match: re.Match[str]) -> None:
    found.set_rank(int(match.group(1)))


def _iso(found: _Found, match: re.Match[str]) -> None:
    found.set_time(*map(int, match.groups()[:6]), fraction=match[7] or "", zone=match[8] or "")
    if match.lastindex and match.lastindex >= 9 and match[9]:
        found.set_rank(int(match[9]))


def _glog(found: _Found, match: re.Match[str]) -> None:
    day, month = int(match[1][-2:]), int(match[1][:-2])
    clock = [int(part) for part in match[2].split(":")]
    found.set_time(found.year, month, day, *clock, fraction=match[3] or "")


def _month_first(found: _Found, match: re.Match[str]) -> None:
    found.set_time(found.year, *map(int, match.groups()[:5]))


def _american(found: _Found, match: re.Match[str]) -> None:
    month, day, year, *clock = map(int, match.groups())
    found.set_time(2000 + year, month, day, *clock)


def _syslog(found: _Found, match: re.Match[str]) -> None:
    month = _MONTHS.index(match[1]) + 1
    found.set_time(found.year, month, *(int(match[i]) for i in range(2, 6)))


def _nccl(found: _Found, match: re.Match[str]) -> None:
    if match[1]:
        found.set_rank(int(match[1]))
    found.host = found.host or match[2]
    found.pid = found.pid or int(match[3])


def _ray(found: _Found, match: re.Match[str]) -> None:
    found.pid = found.pid or int(match[1])
    found.host = found.host or (match[2] or "").strip("[]")


def _host(found: _Found, match: re.Match[str]) -> None:
    found.host = found.host or match[1]


def _nothing(found: _Found, match: re.Match[str]) -> None:
    """Take a head off that says nothing we use."""


_RULES: tuple[tuple[re.Pattern[str], Callable[[_Found, re.Match[str]], None]], ...] = (
    (re.compile(r"\s+"), _nothing),
    (re.compile(r"\[(?:rank|default|RANK |Rank |rank=)(\d{1,6})\]:?[ ]?"), _rank),
    (re.compile(r"\[\d{1,7}\] (?=\[rank)"), _nothing),
    (re.compile(r"\[\d+,(\d{1,6})\]<std(?:out|err)>:[ ]?"), _rank),
    (re.compile(r"\[?" + _ISO + r"(?: (?:TP|DP|PP|EP)(\d+)(?: \w+)*)?\]?(?: -)?[ ]?"), _iso),
    (re.compile(r"\[?[IWEFD](\d{3,4}) (\d\d:\d\d:\d\d)(?:\.(\d+))?(?=[ \]])"), _glog),
    (re.compile(r"(?:\[(\d{1,6})\])?([\w.-]+):(\d+):\d+ \[-?\d+\][ ]?"), _nccl),
    (re.compile(r"\([\w.:()\[\] -]{0,120}?pid=(\d+)(?:, ip=([^)\s]+))?\)[ ]?"), _ray),
    (re.compile(r"\[?(\d\d)/(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d)\]?[ ]?"), _american),
    (
        re.compile(rf"({'|'.join(_MONTHS)}) +(\d\d?) (\d\d):(\d\d):(\d\d)(?= )"),
        _syslog,
    ),
    (re.compile(r"(?:ERROR|INFO|WARNING|WARN) (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d) "), _month_first),
    (re.compile(r"(\d{1,5}) ?:(?!\d)[ ]?(?=\S)"), _rank),
    (re.compile(r"\w{6,16} \[rank=(\d{1,6})\] \|\|[ ]?"), _rank),
    (re.compile(r"((?:\d{1,3}\.){3}\d{1,3}):[ ]"), _host),
    (re.compile(r"((?!\w*(?:Error|Exception):)[A-Za-z][A-Za-z_.-]*\d[\w.-]*):(?:[ ]|$)"), _host),
)
