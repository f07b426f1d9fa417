"""Made-up records and lines of logs, and the verdict from them."""

from collections.abc import Iterable

from unstuck.diagnose.logs.verdict import diagnose
from unstuck.model.logs import (
    LogCause,
    LogFact,
    LogLine,
    LogMatch,
    LogReading,
    LogRecord,
)
from unstuck.model.verdict import Cause, Verdict


def cause(name: Cause, *facts: LogFact, reported: int = 0) -> LogCause:
    return LogCause(name, f"decided by {name}", facts, reported)


def record(
    name: str, role: str, category: str, *causes: LogCause, domain: str = "nccl", **more: object
) -> LogRecord:
    return LogRecord(name, role, f"title of {name}", category, domain, causes, **more)  # type: ignore[arg-type]


RECORDS = {
    one.id: one
    for one in (
        record(
            "timeout",
            "either",
            "timeout",
            cause(Cause.UNEVEN_WORK, LogFact.SOME_SILENT, reported=11),
            cause(Cause.COLLECTIVE_MISMATCH, LogFact.OP_DIFFERS, reported=9),
            cause(Cause.STRAGGLER, reported=4),
        ),
        record(
            "busy",
            "either",
            "timeout",
            cause(Cause.BUSY_ELSEWHERE, LogFact.PREPARING),
            refines="timeout",
            facts=(LogFact.PREPARING,),
        ),
        record("oom", "root", "memory", cause(Cause.OUT_OF_MEMORY), domain="cuda"),
        record("killed", "root", "crash", cause(Cause.PROCESS_CRASH), domain="torchrun"),
        record("closed", "cascade", "crash", cause(Cause.PROCESS_CRASH), cause(Cause.STRAGGLER)),
        record("resolve", "either", "network", cause(Cause.NETWORK_MISCONFIGURATION)),
        record(
            "connect",
            "either",
            "rendezvous",
            cause(Cause.NEVER_JOINED),
            cause(Cause.NETWORK_PARTITION),
        ),
        record("full", "root", "storage", cause(Cause.RESOURCE_CONTENTION), domain="linux"),
        record("route", "root", "network", cause(Cause.NETWORK_PARTITION)),
        record("late", "root", "timeout", cause(Cause.BUSY_ELSEWHERE)),
        record(
            "first",
            "root",
            "rendezvous",
            cause(Cause.NEVER_JOINED),
            cause(Cause.PROCESS_CRASH, LogFact.EARLIER_FAILURE),
        ),
        record("exited", "cascade", "exit", cause(Cause.PROCESS_CRASH), domain="torchrun"),
        record("bare", "cascade", "teardown"),
        record("talk", "harmless", "setting"),
    )
}


def match(
    name: str,
    line: int,
    rank: int | None = None,
    time: float | None = None,
    file: str = "log",
    **fields: object,
) -> LogMatch:
    place = LogLine(file, line, f"{name} on {rank}", rank, "", time)
    return LogMatch(name, RECORDS[name].role, place, {k: str(v) for k, v in fields.items()})


def wait(
    rank: int, seq: int = 90, op: str = "ALLREDUCE", size: int = 8, **more: object
) -> LogMatch:
    fields = {"seq": seq, "op": op, "numel_in": size, "numel_out": size, "timeout_ms": 600000}
    return match("timeout", 100 + rank, rank, **{**fields, **more})  # type: ignore[arg-type]


def verdict(matches: Iterable[LogMatch], world_size: int = 4, **more: object) -> Verdict:
    reading = LogReading(tuple(matches), world_size=world_size, distributed=True, **more)  # type: ignore[arg-type]
    found = diagnose(reading, RECORDS)
    assert found is not None
    return found
