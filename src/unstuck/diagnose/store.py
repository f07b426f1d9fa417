"""Waits in the job's key-value store: groups that only some ranks make, or a store that is gone.

`new_group` meets in the store, not in a collective: nothing is in flight, and only the stack
shows the wait. Some ranks that are not in it are the reason; or the process that hosts the
store is gone, and then none of them will ever come out.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from unstuck.diagnose.blocked import is_blocked
from unstuck.diagnose.deaths import Deaths, exit_code, left_in_order
from unstuck.diagnose.finding import Finding, culprit, process_evidence, stack_evidence
from unstuck.diagnose.host import explain_rank, store_call
from unstuck.diagnose.network import explain_silent
from unstuck.diagnose.patience import limit_of
from unstuck.diagnose.silence import explain_stopped
from unstuck.diagnose.standing import Job, Standing, has_ended
from unstuck.diagnose.words import ranks_text, seconds_text
from unstuck.model.rank import RankState
from unstuck.model.verdict import Alternative, Cause, Confidence, Evidence

_MOST_ITEMS = 5
_LOST = (
    "Did the remote server shutdown or crash",
    "got 0 bytes",
    "Broken pipe",
    "Connection reset by peer",
)


def in_store(job: Job) -> list[RankState]:
    """List the living ranks that wait in the store after their start."""
    return [state for state in job.live if state.phase == "run" and store_call(state)]


def find_store_waits(job: Job, limit: float) -> list[Finding]:
    """Explain why ranks do not come out of `new_group`, once that has lasted long enough."""
    waiting = in_store(job)
    seconds = max((state.stalled_for for state in waiting), default=0.0)
    if not waiting or seconds < limit:
        return []
    inside = {state.rank for state in waiting}
    others = [state for rank, state in job.states.items() if rank not in inside]
    found = (
        _host_gone(job, waiting)
        or explain_unable(job, others)
        or _elsewhere(job, waiting, others)
        or explain_late(job, others, limit, "new_group")
    )
    return [complete(finding, waiting, store_call(waiting[0])) for finding in found]


def explain_lost_store(job: Job, deaths: Deaths) -> Finding | None:
    """Say that ranks failed because the store's host had left, if that is what they say."""
    hurt = [death.state for death in deaths.followers if _lost_the_store(death.state)]
    if not hurt:
        return None
    seconds = max(death.age for death in deaths.followers)
    if hurt[0].store == "launcher":
        return _launcher_gone(hurt, seconds)
    host = job.states.get(0)
    if host is None or not (has_ended(host) or host.left_for):
        return None
    if left_in_order(host):
        return replace(_lost(host, hurt), seconds=seconds)
    if host.failure is not None or exit_code(host) is not None:
        return None
    crash = Alternative(Cause.PROCESS_CRASH, f"read the end of rank {host.rank}'s error output")
    return replace(_lost(host, hurt), seconds=seconds, alternatives=(crash,))


def _lost_the_store(state: RankState) -> bool:
    failure = state.failure
    if failure is None or failure.type not in ("DistNetworkError", "DistStoreError"):
        return False
    return any(words in failure.message for words in _LOST)


def _host_gone(job: Job, waiting: list[RankState]) -> list[Finding]:
    host = job.states.get(0)
    if waiting[0].store != "rank 0" or host is None or not has_ended(host):
        return []
    return [_lost(host, waiting)]


def _lost(host: RankState, hurt: Sequence[RankState]) -> Finding:
    ended = host.process.gone_for or host.left_for or 0.0
    return Finding(
        cause=Cause.STORE_LOST,
        confidence=Confidence.CERTAIN,
        because=f"rank {host.rank} hosts the store of the job and has ended; the others need the "
        "store to make a group",
        culprits=(culprit(host, "ended and took the store of the job with it", ended),),
        victims=tuple(state.rank for state in hurt),
        evidence=(
            process_evidence(host),
            *(item for state in hurt[:_MOST_ITEMS] for item in _hurt_evidence(state)),
        ),
    )


def _launcher_gone(hurt: list[RankState], seconds: float) -> Finding:
    return Finding(
        cause=Cause.STORE_LOST,
        confidence=Confidence.LIKELY,
        because="the launcher hosts the store of the job, and its connections were closed",
        culprits=(),
        victims=tuple(state.rank for state in hurt),
        seconds=seconds,
        summary=f"The launcher, which hosts the store of the job, is gone; "
        f"{ranks_text(state.rank for state in hurt)} needed it.",
        evidence=tuple(item for state in hurt[:_MOST_ITEMS] for item in _hurt_evidence(state)),
        alternatives=(
            Alternative(
                Cause.NETWORK_PARTITION,
                "see on the first node whether the launcher still runs: if it does, the link to "
                "it was cut",
            ),
        ),
    )


def _hurt_evidence(state: RankState) -> tuple[Evidence, ...]:
    if state.failure is None:
        return tuple(replace(item, role="victim") for item in stack_evidence(state)[:1])
    text = f"{state.failure.type}: {state.failure.message.strip()}"[:300]
    return (Evidence(f"rank {state.rank}: excepthook", text, "victim"),)


def explain_unable(job: Job, others: list[RankState]) -> list[Finding]:
    """Name those of the others that are stopped or silent."""
    stopped = [s for s in others if job.standing(s.rank) is Standing.STOPPED]
    silent = [s for s in others if job.standing(s.rank) is Standing.SILENT]
    found = [explain_stopped(stopped)] if stopped else []
    return found + (explain_silent(job, silent) if silent else [])


def _elsewhere(job: Job, waiting: list[RankState], others: list[RankState]) -> list[Finding]:
    """Some ranks make a group while others wait in an operation: the fewer are the odd ones."""
    blocked = [
        state
        for state in others
        if state.in_flight and job.standing(state.rank) is Standing.LIVE and is_blocked(state)
    ]
    if not blocked:
        return []
    tie = len(blocked) == len(waiting)
    odd = [*waiting, *blocked] if tie else min(waiting, blocked, key=len)
    call = store_call(waiting[0])
    phrases = {state.rank: f"is in {store_call(state)}" for state in waiting}
    phrases |= {state.rank: f"is in a collective and has not called {call}" for state in blocked}
    return [
        Finding(
            cause=Cause.COLLECTIVE_MISMATCH,
            confidence=Confidence.POSSIBLE if tie else Confidence.LIKELY,
            because=f"{ranks_text(s.rank for s in waiting)} in {call}, "
            f"{ranks_text(s.rank for s in blocked)} in a collective; every rank must call "
            "new_group, also those that are not members",
            culprits=tuple(culprit(s, phrases[s.rank], s.stalled_for) for s in odd),
            victims=tuple(s.rank for s in blocked),
            evidence=tuple(item for state in odd[:_MOST_ITEMS] for item in stack_evidence(state)),
            alternatives=(
                Alternative(
                    Cause.UNEVEN_WORK,
                    "compare the number of batches per rank: a rank that ran out of data is "
                    "already in its next phase",
                ),
            ),
        )
    ]


def explain_late(job: Job, others: list[RankState], limit: float, call: str) -> list[Finding]:
    """Say what the others do instead of calling the function in which ranks wait for them."""
    late = [
        state
        for state in others
        if job.standing(state.rank) is Standing.LIVE
        and state.stalled_for >= limit_of(state, limit, job.long_places, job.snapshot.controls)
    ]
    doings = [explain_rank(state) for state in late]
    causes = dict.fromkeys(doing.cause for doing in doings)
    return [
        Finding(
            cause=cause,
            confidence=same[0].confidence,
            because=f"it has not called {call}, in which the others wait; {same[0].because}",
            culprits=tuple(doing.culprit for doing in same),
            evidence=tuple(item for doing in same[:_MOST_ITEMS] for item in doing.evidence),
            alternatives=same[0].alternatives,
        )
        for cause in causes
        if (same := [doing for doing in doings if doing.cause is cause])
    ]


def complete(finding: Finding, waiting: list[RankState], call: str) -> Finding:
    """Add who waits in a call that no recorder shows, and for how long."""
    seconds = max(state.stalled_for for state in waiting)
    blamed = {one.rank for one in finding.culprits}
    victims = {*finding.victims, *(state.rank for state in waiting)} - blamed
    inside = [state.rank for state in waiting]
    verb = "waits" if len(inside) == 1 else "wait"
    told = f"{ranks_text(inside)} {verb} in {call} for {seconds_text(seconds)}"
    return replace(
        finding,
        victims=tuple(sorted(victims)),
        seconds=max(seconds, finding.seconds),
        chain=(told,),
    )
