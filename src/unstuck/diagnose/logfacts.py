"""Facts that separate the causes of one message, from comparing lines and ranks."""

import re
from collections.abc import Iterable, Mapping, Sequence

from unstuck.diagnose.logwaits import Waits
from unstuck.model.log import LogFact, LogMatch, LogPhase, LogReading

_MEMORY = re.compile(
    r"out of memory|OutOfMemory|oom[-_ ]?kill|Cannot allocate memory|CUDA calloc|MemoryError",
    re.IGNORECASE,
)
_KILLED = re.compile(
    r"exitcode\s*: -9\b|return code = -9\b|SIGKILL|signal: Killed|[Ss]ignal 9\b|exit code 137\b"
)
_DISK = re.compile(r"No space left on device|disk (?:is )?full|over 9\d% full", re.IGNORECASE)

_CLOSED = re.compile(r"[Cc]losed by (?:remote )?peer|[Rr]eset by peer|failed ?: Broken pipe")
_GUESSES = re.compile(r"There are some potential root causes.*|This is most likely caused by.*")
"""What a message guesses for every such case says nothing about this one."""

_IN_TEXT: tuple[tuple[LogFact, re.Pattern[str]], ...] = (
    (LogFact.REFUSED, re.compile(r"[Cc]onnection refused|ECONNREFUSED|errno: 111\b")),
    (
        LogFact.UNREACHABLE,
        re.compile(
            r"No route to host|Network is unreachable|[Cc]onnection timed out|EHOSTUNREACH"
            r"|errno: 11[03]\b"
        ),
    ),
    (LogFact.NO_ROUTE, re.compile(r"No route to host|EHOSTUNREACH|errno: 113\b")),
    (LogFact.CONNECTION_ABORT, re.compile(r"[Ss]oftware caused connection abort|errno: 103\b")),
    (LogFact.ADDRESS_CHANGED, re.compile(r"GID table change|LID change|client reregistration")),
    (LogFact.PORT_ERROR, re.compile(r"\bport (?:error|active)\b")),
    (LogFact.INIT_ERROR, re.compile(r"'initialization error'|nvls\.cc|initialization error")),
    (LogFact.NOT_READY, re.compile(r"system not yet initialized|\b802\b")),
    (LogFact.LOOPBACK, re.compile(r"(?<![\d.])127\.\d+\.\d+\.\d+|\[::1\]|\blocalhost\b")),
    (LogFact.LINK_LOCAL, re.compile(r"\bfe80:|(?<![\d.])169\.254\.")),
    (LogFact.BRACKETED, re.compile(r"\(\[[0-9a-fA-F:]*:[0-9a-fA-F:]+\], ?\d+\)")),
    (
        LogFact.ODD_ADDRESS,
        re.compile(r"(?<![\d.])(?:0\.\d+|255\.\d+|198\.1[89])\.\d+\.\d+(?![\d.])"),
    ),
    (
        LogFact.DEFAULT_GROUP,
        re.compile(r"\bdefault_pg/0/(?:/cpu//0/)?\d+(?![\d/])|/torchelastic/role_info/"),
    ),
)
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
    if _MEMORY.search(whole):
        facts.add(LogFact.OUT_OF_MEMORY)
    if _KILLED.search(whole):
        facts.add(LogFact.KILLED)
    if _DISK.search(whole):
        facts.add(LogFact.DISK_FULL)
    if _CLOSED.search(whole):
        facts.add(LogFact.PEER_CLOSED)
    facts |= _joined(reading.matches)
    return frozenset(facts)


def match_facts(matches: Iterable[LogMatch]) -> frozenset[LogFact]:
    """Return what the lines of one record say about addresses and errors."""
    matches = list(matches)
    whole = "\n".join(match.line.text for match in matches)
    facts = {fact for fact, pattern in _IN_TEXT if pattern.search(whole)}
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
        if value.lstrip("-").isdigit():
            return int(value)
    return None
