"""The state of a job as a few lines of text."""

from collections.abc import Iterator
from pathlib import Path

from unstuck import durations
from unstuck.console import clean
from unstuck.explain.report import notice as notice_text
from unstuck.model.liveness import HEARD
from unstuck.pipelines.job_status import JobState, JobStatus, Laggard

_HEARD = {life.value for life in HEARD}
_MOST_LISTED = 4
_COMMAND = 100


def lines(status: JobStatus) -> list[str]:
    """Return the text, a label in front of each line.

    Example:
        print("\\n".join(lines(status)))
    """
    pairs = [*_run(status), *_ranks(status), *_time(status), *_open(status)]
    return [f"{label:<9} {clean(text)}" for label, text in pairs]


def headline(status: JobStatus) -> str:
    """Return the state in one phrase: `stalled for 34 s: host-deadlock`."""
    state = status.state
    if state is JobState.ENDED:
        how = f", {_count(status.incidents, 'incident')} stored" if status.incidents else ""
        return f"ended{how}"
    if state is JobState.UNWATCHED:
        return "unwatched: its agent or hub does not answer"
    text = str(state)
    if status.open:
        verdict = status.open[0].verdict
        lasted = verdict.stalled_seconds or 0.0
        if state is JobState.STALLED:
            lasted = max(lasted, status.progress_seconds)
        text += f" for {durations.text(lasted)}" if lasted else ""
        text += f": {verdict.cause}"
    if status.paused_seconds:
        text += f" (stalls are not judged for another {durations.text(status.paused_seconds)})"
    return text


def _run(status: JobStatus) -> Iterator[tuple[str, str]]:
    yield "run", status.run
    if status.command:
        words = " ".join([Path(status.command[0]).name, *status.command[1:]])
        yield "command", words if len(words) <= _COMMAND else f"{words[:_COMMAND]}…"
    yield "state", headline(status)


def _ranks(status: JobStatus) -> Iterator[tuple[str, str]]:
    if status.ranks:
        seen = sum(status.ranks.values())
        states = ", ".join(f"{count} {state}" for state, count in status.ranks.items())
        of = f" of {status.world_size}" if status.world_size > seen else ""
        yield "ranks", f"{seen}{of}: {states}"
    if status.nodes:
        odd = [f"{one.host} is {one.state}" for one in status.nodes if one.state not in _HEARD]
        more = f", and {len(odd) - _MOST_LISTED} more" if len(odd) > _MOST_LISTED else ""
        listed = f": {', '.join(odd[:_MOST_LISTED])}{more}" if odd else ""
        yield "nodes", f"{len(status.nodes)}{listed}"


def _time(status: JobStatus) -> Iterator[tuple[str, str]]:
    parts = [f"step {status.step}"] if status.step else []
    if status.step_seconds:
        waits = _short(status.waiting_seconds)
        parts.append(f"{_short(status.step_seconds)} a {status.step_unit}, {waits} of it waiting")
    if status.progress_seconds >= 1.0:
        parts.append(f"last progress {durations.text(status.progress_seconds)} ago")
    if status.attempt:
        parts.append(f"attempt {status.attempt + 1}")
    if parts:
        yield "progress", "; ".join(parts)


def _open(status: JobStatus) -> Iterator[tuple[str, str]]:
    for one in status.open:
        yield "verdict", f"{one.verdict.summary} ({one.verdict.confidence})"
        for culprit in one.verdict.culprits[:1]:
            if culprit.file:
                yield "at", f"{culprit.file}:{culprit.line} {culprit.code}"
        if one.verdict.do:
            yield "do", one.verdict.do[0]
        if one.bundle:
            yield "details", f"unstuck diagnose {Path(status.run) / one.bundle}"
    for notice in status.notices:
        for number, line in enumerate(notice_text.begins(notice)):
            yield "" if number else "notice", line
    slow = [one for one in status.laggards if not one.blamed]
    if slow:
        yield "slowest", ", ".join(_laggard(one) for one in slow[:_MOST_LISTED])


def _laggard(one: Laggard) -> str:
    place = f", {Path(one.place).name}" if one.place else ""
    return f"rank {one.rank} ({_short(one.own_seconds)} of its own a step{place})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _short(seconds: float) -> str:
    """Write the time of a step, which may be short."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else durations.text(seconds)
