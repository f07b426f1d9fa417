"""Is it a failure of the job at all, or one of the program, in one process or alike in all?"""

import re
from collections.abc import Mapping, Sequence

from unstuck.diagnose.logs.positions import rank_of
from unstuck.model.logs import LogFact, LogFailure, LogMatch, LogReading, LogRecord

WRAPPERS = re.compile(
    r"torch\.distributed\.|Dist\w*Error|ChildFailedError|ray\.|Rendezvous|subprocess\.|SystemExit"
    r"|KeyboardInterrupt|torch\.multiprocessing"
)
"""Exceptions that report what happened elsewhere."""
_NOT_ONLY_HERE = {
    ("cuda", "memory"),
    ("pytorch", "memory"),
    ("cuda", "setup"),
    ("linux", "storage"),
    ("linux", "crash"),
    ("pytorch", "assert"),
}
"""What happens to a single process just as well: memory, devices, disks and limits."""
_OF_PEERS = re.compile(r"torch\.distributed\.|Dist\w*Error|ray\.|Rendezvous")
_DIGITS = re.compile(r"\d+")
_PYTHONS_OWN = {"1", "2"}
"""Exit codes of an exception and of refused arguments."""


def is_programs_own(
    serious: Sequence[LogMatch], reading: LogReading, records: Mapping[str, LogRecord]
) -> bool:
    """Tell whether the program failed by itself, in one process or alike in all of them."""
    if reading.usage_error and all(match.role == "cascade" for match in serious):
        return True
    found = {match.record for match in serious}
    anywhere = all((records[n].domain, records[n].category) in _NOT_ONLY_HERE for n in found)
    if anywhere and not reading.distributed and len(reading.ranks) <= 1:
        return True
    if _only_leaving(serious, reading, records):
        return True
    return _just_ended(serious, reading, records) or _alike_everywhere(serious, reading, records)


def _only_leaving(
    serious: Sequence[LogMatch], reading: LogReading, records: Mapping[str, LogRecord]
) -> bool:
    """Tell whether the job was done and some ranks only found the store of rank 0 gone."""
    store = all(m.role == "cascade" and records[m.record].domain == "tcpstore" for m in serious)
    if not serious or not store or any(f.exception for f in reading.failures):
        return False
    first = serious[0].line
    last = [p for p in reading.phases if p.line.file == first.file and p.line.line < first.line]
    last.sort(key=lambda phase: phase.line.line)
    return bool(last) and last[-1].fact is LogFact.AT_END


def _just_ended(
    serious: Sequence[LogMatch], reading: LogReading, records: Mapping[str, LogRecord]
) -> bool:
    """Tell whether launchers report Python's own exit code, and nothing shows more than that.

    One process that ended so, or all of them alike, is a failure of the program: its error is
    in the log or was cut off.
    """
    stopped = [m for m in serious if m.fields.get("exit_code") == "-15" or "signal" in m.fields]
    rest = [m for m in serious if m not in stopped]
    endings = all(records[m.record].category == "crash" for m in rest)
    if not rest or not endings or not all(_is_launchers(m, records) for m in serious):
        return False
    failures = [f for f in reading.failures if f.exception]
    if any(_OF_PEERS.match(f.exception) or f.line.rank is not None for f in failures):
        return False
    ended = {_process(m): m.fields["exit_code"] for m in rest if "exit_code" in m.fields}
    if not _PYTHONS_OWN.issuperset(ended.values()) or (stopped and not ended):
        return False
    return len(ended) <= 1 or (len(set(ended.values())) == 1 and not stopped)


def _process(match: LogMatch) -> str:
    fields = match.fields
    named = fields.get("pid") or fields.get("local_rank") or fields.get("ranks")
    return named or str(rank_of(match))


def raised_on_some_hosts(reading: LogReading) -> list[LogFailure]:
    """Return the exceptions of some hosts, where others of the same name did not raise them.

    Launchers such as pdsh put the host before a line, not the rank.
    """
    found = [
        failure
        for failure in reading.failures
        if failure.line.host and failure.line.rank is None and failure.exception
    ]
    found = [failure for failure in found if not WRAPPERS.match(failure.exception)]
    raised = {failure.line.host for failure in found}
    names = {_DIGITS.sub("#", host) for host in raised}
    job = {host for host in reading.hosts if _DIGITS.sub("#", host) in names}
    return found if reading.distributed and len(names) == 1 and raised < job else []


def _alike_everywhere(
    serious: Sequence[LogMatch], reading: LogReading, records: Mapping[str, LogRecord]
) -> bool:
    """Tell whether all ranks raised the same error, and no peer suffered from it.

    What the launcher says about ended processes is then no sign of more.
    """
    raised = [m for m in serious if m.role == "root" and _is_exception(m, records)]
    if any(m not in raised and not _is_launchers(m, records) for m in serious):
        return False
    failures = [f for f in reading.failures if f.exception and not WRAPPERS.match(f.exception)]
    kinds = {m.fields["error"] for m in raised} | {f.exception for f in failures}
    ranks = {rank_of(m) for m in raised} | {f.line.rank for f in failures}
    known = {rank for rank in ranks if rank is not None}
    world = max([reading.world_size, *(rank + 1 for rank in (*known, *reading.ranks))], default=0)
    return len(kinds) == 1 and (not known or len(known) >= world)


def _is_exception(match: LogMatch, records: Mapping[str, LogRecord]) -> bool:
    record = records[match.record]
    return "error" in match.fields and (record.domain, record.category) == ("pytorch", "crash")


def _is_launchers(match: LogMatch, records: Mapping[str, LogRecord]) -> bool:
    launcher = records[match.record].domain == "torchrun" or "exit_code" in match.fields
    return match.role == "cascade" and launcher
