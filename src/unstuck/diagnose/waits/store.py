"""The process that hosts the job's key-value store is gone: whoever needs it never gets on."""

from collections.abc import Sequence

from msgspec.structs import replace

from unstuck.diagnose.dead.deaths import Deaths, exit_code, left_in_order
from unstuck.diagnose.finding import Finding, culprit, process_evidence, stack_evidence
from unstuck.diagnose.job.main_thread import store_call
from unstuck.diagnose.job.standing import Job, has_ended
from unstuck.diagnose.text import ranks_text
from unstuck.model.doing import Ended, Ending
from unstuck.model.rank import RankState
from unstuck.model.verdict import Alternative, Cause, Confidence, Evidence, Role

_MOST_ITEMS = 5
_LOST = (
    "Did the remote server shutdown or crash",
    "got 0 bytes",
    "Broken pipe",
    "Connection reset by peer",
)


def find_lost_store(job: Job, waiting: list[RankState]) -> Finding | None:
    """Say that ranks wait in the store of a rank that has ended, if they do."""
    host = job.states.get(0)
    if not waiting or waiting[0].store != "rank 0" or host is None or not has_ended(host):
        return None
    return _lost(host, waiting) if any(map(store_call, waiting)) else None


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


def _lost(host: RankState, hurt: Sequence[RankState]) -> Finding:
    ended = host.process.gone_for or host.left_for or 0.0
    return Finding(
        cause=Cause.STORE_LOST,
        confidence=Confidence.CERTAIN,
        because=f"rank {host.rank} hosts the store of the job and has ended; the others need the "
        "store to make a group",
        culprits=(culprit(host, Ended(Ending.STORE), ended),),
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
        return tuple(replace(item, role=Role.VICTIM) for item in stack_evidence(state)[:1])
    text = f"{state.failure.type}: {state.failure.message.strip()}"[:300]
    return (Evidence(f"rank {state.rank}: excepthook", text, Role.VICTIM),)
