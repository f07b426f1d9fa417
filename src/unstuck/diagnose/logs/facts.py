"""Facts that separate the causes of one message, from comparing lines and ranks."""

import re
from collections.abc import Iterable, Mapping, Sequence

from unstuck.diagnose.logs.positions import Waits
from unstuck.model.logs import LogFact, LogMatch, LogPhase, LogReading

_IN_JOB = {
    fact: re.compile(words)
    for fact, words in {
        LogFact.OUT_OF_MEMORY: (
            r"(?i)out of memory|OutOfMemory|oom[-_ ]?kill|Cannot allocate memory|CUDA calloc"
            r"|MemoryError"
        ),
        LogFact.KILLED: (
            r"exitcode\s*: -9\b|return code = -9\b|SIGKILL|signal: Killed|[Ss]ignal 9\b"
            r"|exit code 137\b"
        ),
        LogFact.DISK_FULL: r"(?i)No space left on device|disk (?:is )?full|over 9\d% full",
        LogFact.PEER_CLOSED: (
            r"[Cc]losed by (?:remote )?peer|[Rr]eset by peer|failed ?: Broken pipe"
        ),
    }.items()
}
"""Looked for in all lines of the job that report a failure."""
_GUESSES = re.compile(r"There are some potential root causes.*|This is most likely caused by.*")
"""What a message guesses for every such case says nothing about this one."""

_IN_MATCH = {
    fact: re.compile(words)
    for fact, words in {
        LogFact.REFUSED: r"[Cc]onnection refused|ECONNREFUSED|errno: 111\b",
        LogFact.UNREACHABLE: (
            r"No route to host|Network is unreachable|[Cc]onnection timed out|EHOSTUNREACH"
            r"|errno: 11[03]\b"
        ),
        LogFact.NO_ROUTE: r"No route to host|EHOSTUNREACH|errno: 113\b",
        LogFact.CONNECTION_ABORT: r"[Ss]oftware caused connection abort|errno: 103\b",
        LogFact.ADDRESS_CHANGED: r"GID table change|LID change|client reregistration",
        LogFact.PORT_ERROR: r"\bport (?:error|active)\b",
        LogFact.INIT_ERROR: r"'initialization error'|nvls\.cc|initialization error",
        LogFact.DEVICE_ASSERT: r"device-side assert",
        LogFact.NOT_READY: r"system not yet initialized|\b802\b",
        LogFact.LOOPBACK: r"(?<![\d.])127\.\d+\.\d+\.\d+|\[::1\]|\blocalhost\b",
        LogFact.LINK_LOCAL: r"\bfe80:|(?<![\d.])169\.254\.",
        LogFact.BRACKETED: r"\(\[[0-9a-fA-F:]*:[0-9a-fA-F:]+\], ?\d+\)",
        LogFact.ODD_ADDRESS: r"(?<![\d.])(?:0\.\d+|255\.\d+|198\.1[89])\.\d+\.\d+(?![\d.])",
        LogFact.DEFAULT_GROUP: r"\bdefault_pg/0/(?:/cpu//0/)?\d+(?![\d/])|/torchelastic/role_info/",
    }.items()
}
SHORT_LIMIT_MS = 60_000
_LATER_PHASES = {
    LogFact.TRAINING,
    LogFact.SAVING,
    LogFact.EVALUATING,
    LogFact.GENERATING,
    LogFact.AT_END,
}
_START_PHASES = {LogFact.PREPARING, LogFact.LOADING, LogFact.COMPILING}


def job_facts(reading: LogReading, waits: Waits) -> frozenset[LogFact]:
    """Return what holds for the whole job."""
    facts = set(waits.facts)
    facts |= {phase.fact for phase in last_phases(reading.phases)}
    if waits.alone and not facts.isdisjoint(_LATER_PHASES - {LogFact.TRAINING}):
        # A job of unknown size has more ranks than the one that complains. Alone that says
        # little, for logs are cut; with what went on before it does.
        facts.add(LogFact.SOME_SILENT)
    texts = [match.line.text for match in reading.matches if match.role != "harmless"]
    texts += [failure.line.text for failure in reading.failures]
    whole = _GUESSES.sub("", "\n".join(texts))
    facts |= {fact for fact, pattern in _IN_JOB.items() if pattern.search(whole)}
    facts |= _joined(reading.matches)
    return frozenset(facts)


def match_facts(matches: Iterable[LogMatch]) -> frozenset[LogFact]:
    """Return what the lines of one record say about addresses and errors."""
    matches = list(matches)
    whole = "\n".join(match.line.text for match in matches)
    facts = {fact for fact, pattern in _IN_MATCH.items() if pattern.search(whole)}
    limits = [number(match.fields, "timeout_ms") for match in matches]
    if any(limit is not None and limit <= SHORT_LIMIT_MS for limit in limits):
        facts.add(LogFact.SHORT_LIMIT)
    return frozenset(facts)


def last_phases(phases: Sequence[LogPhase]) -> list[LogPhase]:
    """Leave out a start phase that was over: the same rank trained, saved … after it."""
    later: dict[tuple[str, int | None], int] = {}
    for phase in phases:
        if phase.fact in _LATER_PHASES:
            key = (phase.line.file, phase.line.rank)
            later[key] = max(later.get(key, 0), phase.line.line)
    return [
        phase
        for phase in phases
        if phase.fact not in _START_PHASES
        or phase.line.line >= later.get((phase.line.file, phase.line.rank), 0)
    ]


def _joined(matches: Iterable[LogMatch]) -> set[LogFact]:
    facts: set[LogFact] = set()
    for match in matches:
        came = number(match.fields, "joined", "worker_count")
        wanted = number(match.fields, "expected", "world_size")
        if came is not None and wanted is not None and came != wanted:
            facts.add(LogFact.FEWER_JOINED if came < wanted else LogFact.MORE_JOINED)
    return facts


def number(fields: Mapping[str, str], *names: str) -> int | None:
    """Return the first of these fields that is a whole number.

    Example:
        number({"worker_count": "9"}, "joined", "worker_count")  # 9
    """
    for name in names:
        value = fields.get(name, "").replace(",", "")
        if value.lstrip("-").isdecimal():
            return int(value)
    return None
