"""From the lines of logs that nobody watched to a verdict, or to none.

A signature alone never gives one cause. The root is separated from its consequences, the facts
around it choose among the causes its record lists, and where they do not decide the
verdict says `unknown` and what would.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from unstuck.diagnose.logs.blame import Blame, victims
from unstuck.diagnose.logs.causes import Choice, choose, weight
from unstuck.diagnose.logs.facts import job_facts, last_phases, match_facts
from unstuck.diagnose.logs.phrases import LANGUAGES, Words
from unstuck.diagnose.logs.positions import FAILURES, Waits, is_wait, rank_of
from unstuck.diagnose.logs.roots import (
    BURST_LINES,
    BURST_SECONDS,
    Candidate,
    ordered,
    pick,
    without_survived,
)
from unstuck.diagnose.logs.scope import WRAPPERS, is_programs_own, raised_on_some_hosts
from unstuck.diagnose.text import moment, ranks_text
from unstuck.model.logs import LogFact, LogFailure, LogLine, LogMatch, LogReading, LogRecord
from unstuck.model.verdict import (
    Cause,
    Confidence,
    Culprit,
    Evidence,
    Role,
    StuckOperation,
    Verdict,
)

MOST_EVIDENCE = 3
"""Lines shown of each role."""
MOST_MISSING = 16

LONGEST_MESSAGE = 30
_NAMED = re.compile(r"\b[Rr]ank (\d{1,6})\b")
"""A root that names several ranks is raised by all of them."""


def diagnose(
    reading: LogReading, records: Mapping[str, LogRecord], lang: str = "en"
) -> Verdict | None:
    """Return what went wrong in these logs; None when nothing distributed did.

    `records` are in the language that is asked for, too.

    Example:
        diagnose(reading, records).cause  # Cause.BUSY_ELSEWHERE
    """
    serious = [match for match in reading.matches if match.role in FAILURES]
    serious = serious or _signs_of_timeout(reading, records)
    if is_programs_own(serious, reading, records):
        serious = []
    raised = _causing(reading.failures, serious) if serious else raised_on_some_hosts(reading)
    if not serious and not raised:
        return None
    waits = Waits(reading)
    order = without_survived(ordered(serious, raised, records), reading.phases)
    if not order:
        return None
    root = pick(order)
    facts = job_facts(reading, waits)
    if _failed_before(root, order):
        facts |= {LogFact.EARLIER_FAILURE}
    if root is None:
        choice = _from_cascades(serious, records, facts)
    elif root.match is None:
        choice = None
    else:
        alike = [m for m in serious if m.record == root.match.record]
        choice = choose(records[root.match.record], records, facts | match_facts(alike))
    return _Writer(reading, waits, order, root, choice, LANGUAGES[lang]).verdict()


def _signs_of_timeout(reading: LogReading, records: Mapping[str, LogRecord]) -> list[LogMatch]:
    """Return what only a job says in which some collective timed out, on a rank not seen here."""
    return [
        match
        for match in reading.matches
        if match.role == "diagnostic"
        and (records[match.record].domain, records[match.record].category) == ("nccl", "timeout")
    ]


def _causing(failures: Sequence[LogFailure], serious: Sequence[LogMatch]) -> list[LogFailure]:
    """Return the exceptions in no record that came first and close enough to be the reason."""
    order = ordered(serious)
    first = next((c for c in order if c.role in {"root", "either"}), None)
    nearest = order[0]
    found: list[LogFailure] = []
    for candidate in ordered((), [f for f in failures if f.exception]):
        ahead = first is None or _before(candidate, first)
        if candidate.failure is None or not ahead or not _explains(candidate, nearest):
            continue
        wrapped = any(_continues(candidate.failure, c) for c in order)
        if not wrapped and not WRAPPERS.match(candidate.failure.exception):
            found.append(candidate.failure)
    return found


def _continues(failure: LogFailure, match: Candidate) -> bool:
    """Tell whether a match is a later line of an exception's own message."""
    line = failure.line
    apart = match.line.line - line.line
    same = match.line.file == line.file and match.line.rank == line.rank
    return same and match.role != "cascade" and 0 <= apart <= LONGEST_MESSAGE


def _before(one: Candidate, other: Candidate) -> bool:
    if one.line.file == other.line.file:
        return one.line.line < other.line.line
    if one.time is not None and other.time is not None:
        return one.time < other.time
    return other.role != "root"


def _explains(failure: Candidate, later: Candidate) -> bool:
    """Tell whether a failure is near a consequence, a timeout's waiting time left out."""
    waited = 0.0
    if later.match is not None and is_wait(later.match):
        elapsed = later.match.fields.get("elapsed_ms") or later.match.fields.get("timeout_ms", "0")
        waited = float(elapsed) / 1000 if elapsed.isdecimal() else 0.0
    if failure.time is not None and later.time is not None:
        return -BURST_SECONDS <= later.time - failure.time <= waited + 3 * BURST_SECONDS
    if failure.line.file == later.line.file:
        return abs(later.line.line - failure.line.line) <= BURST_LINES
    return True


def _failed_before(root: Candidate | None, order: Sequence[Candidate]) -> bool:
    """Tell whether a process had ended by itself: not by SIGTERM, and not by a watchdog."""
    for candidate in order:
        match = candidate.match
        if match is None:
            return True
        if match is (root.match if root else None):
            continue
        code = match.fields.get("exit_code", "")
        if code and code not in {"0", "-15", "-6"} and not _ending_of(root, candidate, code):
            return True
    return False


def _ending_of(root: Candidate | None, later: Candidate, code: str) -> bool:
    """Tell whether a launcher's report is how a rank of the root itself ended, after it."""
    if root is None or root.match is None or later.match is None or code != "1":
        return False
    mine, its = rank_of(root.match), rank_of(later.match)
    named: set[int | None] = {mine}
    if root.role == "root":
        named |= {int(rank) for rank in _NAMED.findall(root.line.text)}
    return _before(root, later) and its is not None and its in named


def _from_cascades(
    serious: Sequence[LogMatch], records: Mapping[str, LogRecord], facts: frozenset[LogFact]
) -> Choice:
    """Choose among what the consequences point to; nobody's own failure is in these logs."""
    choices = [choose(records[m.record], records, facts | match_facts([m])) for m in serious]
    known = [choice for choice in choices if choice.cause is not Cause.UNKNOWN] or choices
    best = max(known, key=lambda choice: weight(choice.facts))
    return structs.replace(best, confidence=Confidence.POSSIBLE)


class _Writer(Struct, frozen=True):
    """Writes the verdict with everything that speaks for it."""

    reading: LogReading
    waits: Waits
    order: Sequence[Candidate]
    root: Candidate | None
    choice: Choice | None
    words: Words

    @property
    def cause(self) -> Cause:
        return self.choice.cause if self.choice else Cause.PROCESS_CRASH

    def verdict(self) -> Verdict:
        """Put the verdict together."""
        choice, root = self.choice, self.root
        culprits = Blame(self.reading, self.waits, self.words).culprits(root, self.cause)
        first = root or self.order[0]
        return Verdict(
            self.cause,
            choice.confidence if choice else Confidence.LIKELY,
            culprits,
            victims(self.reading, self.waits, culprits, root),
            since=moment(first.time) if first.time else "",
            evidence=self._evidence({culprit.rank for culprit in culprits}),
            alternatives=choice.alternatives if choice else (),
            records=self._records(),
            summary=self._summary(culprits),
            because=self._because(),
            stuck=self._stuck(culprits),
        )

    def _records(self) -> tuple[str, ...]:
        """Return the record that answers first, then its parent, then the others by order.

        None where the failure itself is in no record: those of its consequences would mislead.
        """
        if self.choice is None:
            return ()
        first = [self.choice.record.id]
        root = [self.root.match.record] if self.root and self.root.match else []
        rest = [c.match.record for c in self.order if c.match]
        return tuple(dict.fromkeys([*first, *root, *rest]))

    def _evidence(self, blamed: set[int]) -> tuple[Evidence, ...]:
        lines: dict[tuple[str, int], tuple[LogLine, str]] = {}
        first = [self.root] if self.root else []
        shown: dict[str, int] = {}
        for candidate in (*first, *self.order):
            role = self._role(candidate, blamed)
            if shown.get(role, 0) < MOST_EVIDENCE:
                key = (candidate.line.file, candidate.line.line)
                if key not in lines:
                    shown[role] = shown.get(role, 0) + 1
                    lines[key] = (candidate.line, role)
        facts = self.choice.facts if self.choice else ()
        for phase in last_phases(self.reading.phases):
            if phase.fact in facts:
                role = "root" if phase.line.rank in blamed else "context"
                lines.setdefault((phase.line.file, phase.line.line), (phase.line, role))
        return tuple(_item(line, role) for line, role in lines.values())

    def _role(self, candidate: Candidate, blamed: set[int]) -> str:
        root, match = self.root, candidate.match
        if match is not None and is_wait(match) and blamed and rank_of(match) not in blamed:
            return "victim"
        known = root.match.record if root and root.match else None
        if root is None and match and "exit_code" in match.fields and rank_of(match) in blamed:
            return "root"
        same = match is not None and match.record == known
        return "root" if same or candidate is root else "cascade"

    def _summary(self, culprits: Sequence[Culprit]) -> str:
        title = self.choice.record.title if self.choice else self.words.exception
        who = f"{ranks_text(c.rank for c in culprits)}: " if culprits else ""
        return f"{who}{title}"

    def _because(self) -> str:
        words, choice = self.words, self.choice
        if self.root is None:
            return words.only_consequences.format(where=self._elsewhere())
        if choice is None:
            return words.raised_first
        if self.cause is Cause.UNKNOWN:
            return words.undecided
        if choice.facts:
            facts = words.comma.join(words.facts[fact] for fact in choice.facts)
            return words.shows.format(facts=facts)
        return words.one_cause if len(choice.record.causes) == 1 else words.most_frequent

    def _elsewhere(self) -> str:
        """Name the ranks whose own log is missing, as far as the lines tell."""
        first = [m.fields["first_rank"] for m in self.reading.matches if "first_rank" in m.fields]
        if first:
            return ranks_text([int(first[0])])
        spoke = set(self.reading.ranks)
        ranks = [rank for rank in range(self.waits.world_size) if rank not in spoke]
        return ranks_text(ranks) if 0 < len(ranks) <= MOST_MISSING else self.words.others

    def _stuck(self, culprits: Sequence[Culprit]) -> StuckOperation | None:
        waits = [w for w in self.waits.by_rank.values() if w.number is not None]
        if not waits:
            return None
        blamed = {culprit.rank for culprit in culprits}
        usual = next((w for w in waits if w.rank not in blamed), waits[0])
        together = tuple(
            sorted(w.rank for w in waits if (w.number, w.op) == (usual.number, usual.op))
        )
        return StuckOperation(
            usual.op,
            usual.number or 0,
            usual.match.fields.get("pg", "0"),
            self.waits.world_size,
            description=usual.match.fields.get("pg_desc", "its group"),
            waiting=together,
            missing=tuple(sorted(blamed - set(together))),
        )


def _item(line: LogLine, role: str) -> Evidence:
    source = f"rank {line.rank}" if line.rank is not None else line.host or "log"
    return Evidence(source, line.text, Role(role), line.file, line.line)
