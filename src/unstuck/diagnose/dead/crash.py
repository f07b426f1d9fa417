"""The verdict on deaths: why the first one died, or that somebody left too early."""

import signal
from typing import NamedTuple

from msgspec.structs import replace

from unstuck.diagnose.dead.deaths import (
    Death,
    Deaths,
    exit_code,
    left_in_order,
    tells_of_a_peer,
    timed_out,
)
from unstuck.diagnose.finding import Finding, culprit, stack_evidence
from unstuck.diagnose.job.main_thread import call_in_progress
from unstuck.diagnose.job.standing import Job
from unstuck.diagnose.stuck.left_loop import explain_staying, steps_evidence
from unstuck.diagnose.text import place, ranks_text, seconds_text, signal_name
from unstuck.diagnose.thresholds import SIMULTANEOUS
from unstuck.model.doing import Activity, During, Ended, Ending, Exited, Killed, Raised
from unstuck.model.rank import Failure, Phase, RankState
from unstuck.model.verdict import Alternative, Cause, Confidence, Culprit, Evidence, Role

_NO_MEMORY = ("out of memory", "can't allocate memory", "Cannot allocate memory")
_MOST_FOLLOWERS = 5
_CRASH = Cause.PROCESS_CRASH
_KERNEL_LOG = Alternative(
    Cause.OUT_OF_MEMORY, "look for an out-of-memory kill in its host's kernel log (dmesg)"
)


class _Reason(NamedTuple):
    cause: Cause
    confidence: Confidence
    activity: Activity
    because: str
    alternatives: tuple[Alternative, ...] = ()


def explain_roots(job: Job, deaths: Deaths) -> Finding:
    """Say why the first rank died, and name those that died with it or in the same way."""
    first = deaths.roots[0]
    reason = _reason(first)
    named = [death for death in deaths.roots if _is_named(first, death)]
    culprits = tuple(
        sorted((_root(death, reason.cause) for death in named), key=lambda one: one.rank)
    )
    rest = [death for death in deaths.roots if death not in named]
    return Finding(
        cause=reason.cause,
        confidence=reason.confidence,
        because=reason.because,
        culprits=culprits,
        victims=_others(job, culprits),
        seconds=first.age,
        evidence=_evidence(named, [*rest, *deaths.followers]),
        alternatives=reason.alternatives,
    )


def explain_abort(job: Job, deaths: Deaths) -> Finding:
    """Say that gloo aborted a rank in a collective: what it received had the wrong size.

    The sender is to blame, and is not known here.
    """
    first = deaths.roots[0]
    call = call_in_progress(first.state)
    rank = first.state.rank
    return Finding(
        cause=Cause.COLLECTIVE_MISMATCH,
        confidence=Confidence.POSSIBLE,
        because=f"rank {rank} was aborted by a thread of the backend while its main thread waited "
        f"in {call}",
        culprits=(),
        victims=_others(job, ()),
        seconds=first.age,
        evidence=(
            *_evidence([first], [*deaths.roots[1:], *deaths.followers]),
            *stack_evidence(first.state),
        ),
        alternatives=(
            Alternative(
                _CRASH,
                f"look for \"Received data size doesn't match expected size\" in rank {rank}'s "
                "stderr: without it, this is a crash of its own",
            ),
        ),
        summary=f"Rank {rank} was aborted inside {call}: another rank seems to have sent it a "
        "tensor of a different size; which one is not known.",
    )


def explain_leavers(job: Job, deaths: Deaths) -> Finding:
    """Say that ranks ended successfully while others still needed them."""
    finished = all(_had_left_its_loops(death.state) for death in deaths.leavers)
    left = {death.state.rank for death in deaths.leavers}
    staying = [rank for rank in deaths.sufferers if rank not in left]
    if finished and len(left) > len(staying) > 0:
        found = explain_staying(job, staying, sorted(left))
        return replace(
            found,
            seconds=deaths.oldest,
            evidence=(*found.evidence, *followers_evidence(deaths.followers)),
        )
    culprits = tuple(
        _dead(death, Ended(Ending.LOOP if finished else Ending.EARLY))
        for death in sorted(deaths.leavers, key=lambda death: death.state.rank)
    )
    blamed = {one.rank for one in culprits}
    victims = tuple(rank for rank in deaths.sufferers if rank not in blamed)
    evidence = [_counts(death) for death in deaths.leavers[:_MOST_FOLLOWERS]]
    return Finding(
        cause=Cause.UNEVEN_WORK if finished else Cause.RANK_LEFT_EARLY,
        confidence=Confidence.LIKELY if finished else Confidence.CERTAIN,
        because=f"{ranks_text(victims)} issued more collectives in a shared group than "
        f"{ranks_text(blamed)} ever did"
        + (", which destroyed its process groups after its loop" if finished else ""),
        culprits=culprits,
        victims=victims,
        seconds=deaths.oldest,
        evidence=(
            *evidence,
            *steps_evidence(job, sorted(blamed)),
            *followers_evidence(deaths.followers),
        ),
        alternatives=(
            Alternative(
                Cause.RANK_LEFT_EARLY if finished else Cause.UNEVEN_WORK,
                "compare the number of batches per rank",
            ),
        ),
    )


def _had_left_its_loops(state: RankState) -> bool:
    """Tell whether a rank destroyed its groups outside any loop, as at the end of a script."""
    return state.left_for is not None and state.loops == ()


def explain_followers(job: Job, deaths: Deaths) -> Finding:
    """Say that the root cause is not visible, and which rank ended first if none complained before.

    A rank that complains about a peer is not named: another one is to blame.
    """
    first = deaths.followers[0]
    alone = _ended_alone(deaths.followers)
    named = (culprit(first.state, Ended(Ending.FIRST), first.age),) if alone else ()
    return Finding(
        cause=Cause.PROCESS_CRASH if alone else Cause.UNKNOWN,
        confidence=Confidence.POSSIBLE,
        because="only consequences are visible: every failure seen is of a kind that another "
        "rank's end or delay causes",
        culprits=named,
        victims=_others(job, named),
        seconds=first.age,
        evidence=followers_evidence(deaths.followers),
        alternatives=(
            Alternative(Cause.NETWORK_PARTITION, "check the links between the hosts"),
            Alternative(Cause.UNKNOWN, "read the logs of the ranks that did not complain"),
        ),
        summary="" if alone else _what_came_first(first),
    )


def _ended_alone(followers: tuple[Death, ...]) -> bool:
    first, *others = followers
    if tells_of_a_peer(first.state):
        return False
    return all(first.age - other.age > SIMULTANEOUS for other in others)


def _what_came_first(first: Death) -> str:
    if not tells_of_a_peer(first.state):
        return "Several ranks ended at the same moment; what ended them is not known."
    if timed_out(first.state):
        return f"Rank {first.state.rank} timed out first; which rank it waited for is not known."
    return f"Rank {first.state.rank} lost a peer first; which peer is not known."


def _others(job: Job, culprits: tuple[Culprit, ...]) -> tuple[int, ...]:
    blamed = {one.rank for one in culprits}
    return tuple(
        rank
        for rank, state in job.states.items()
        if rank not in blamed and not left_in_order(state)
    )


def _dead(death: Death, activity: Activity) -> Culprit:
    at = death.state.failure.at if death.state.failure else None
    return culprit(death.state, activity, death.age, at)


def _root(death: Death, cause: Cause) -> Culprit:
    """Name a rank that died by itself, with its own cause where that is another one."""
    reason = _reason(death)
    found = _dead(death, reason.activity)
    return found if reason.cause is cause else replace(found, cause=reason.cause)


def _is_named(first: Death, other: Death) -> bool:
    """Tell whether a death cannot be a consequence of the first one."""
    at_once = abs(first.age - other.age) <= SIMULTANEOUS
    return other is first or at_once or _same_death(first, other)


def _same_death(first: Death, other: Death) -> bool:
    one, two = first.state.failure, other.state.failure
    if one and two:
        return (one.type, one.at) == (two.type, two.at)
    together = abs(first.age - other.age) <= SIMULTANEOUS
    return together and one is two and first.signal == other.signal


def _reason(death: Death) -> _Reason:
    if death.state.failure is not None:
        return _by_exception(death.state.failure)
    if death.signal:
        return _by_signal(death)
    code = exit_code(death.state)
    if code is None and death.state.process.oom_kills > 0:
        return _by_memory_killer(death, Ended(Ending.VANISHED))
    if code is None:
        because = "its process ended in the middle of its work; the exit code is not known"
        return _Reason(_CRASH, Confidence.LIKELY, Ended(Ending.VANISHED), because, (_KERNEL_LOG,))
    because = (
        f"its exit code is {code} and it ended before all others"
        if death.state.process.exit_code is not None
        else f"its script called sys.exit({code}) before any other rank ended"
    )
    return _Reason(_CRASH, Confidence.CERTAIN, Exited(code), because)


def _by_exception(failure: Failure) -> _Reason:
    message = failure.message.strip().splitlines()
    error = f"{failure.type}: {message[0]}" if message else failure.type
    no_memory = "MemoryError" in failure.type or any(
        words.lower() in failure.message.lower() for words in _NO_MEMORY
    )
    return _Reason(
        Cause.OUT_OF_MEMORY if no_memory or "OutOfMemory" in failure.type else _CRASH,
        Confidence.CERTAIN,
        Raised(error[:200]),
        "its own exception came before every other failure",
    )


def _by_signal(death: Death) -> _Reason:
    name = signal_name(death.signal)
    process = death.state.process
    if death.state.phase == Phase.EXIT:
        destroyed = death.state.left_for is not None
        because = "its script had ended; threads of torch were still running" + (
            "" if destroyed else ", which destroy_process_group() at its end mostly prevents"
        )
        during = During.AFTER_DESTROY if destroyed else During.SHUTDOWN
        return _Reason(_CRASH, Confidence.CERTAIN, Killed(name, during), because)
    if death.signal != signal.SIGKILL:
        because = f"its process was killed by {name} before any other rank ended"
        if death.state.crashed_in == "python":
            return _Reason(_CRASH, Confidence.CERTAIN, Killed(name, During.LINE), because)
        # gloo aborts the receiver of what another rank sent wrongly: it need not be to blame.
        sure = Confidence.LIKELY if death.signal == signal.SIGABRT else Confidence.CERTAIN
        return _Reason(_CRASH, sure, Killed(name), because, _signal_hints(death.signal))
    if process.oom_kills > 0:
        return _by_memory_killer(death, Killed(name))
    because = (
        "its process was killed by SIGKILL before any other rank ended; its cgroup counts no "
        "out-of-memory kill"
    )
    return _Reason(_CRASH, Confidence.CERTAIN, Killed(name), because, (_KERNEL_LOG,))


def _by_memory_killer(death: Death, activity: Activity) -> _Reason:
    kills = death.state.process.oom_kills
    because = f"its cgroup counts {kills} {'kill' if kills == 1 else 'kills'} by the OOM killer"
    other = Alternative(_CRASH, "check in the kernel log (dmesg) which process was killed")
    return _Reason(Cause.OUT_OF_MEMORY, Confidence.LIKELY, activity, because, (other,))


def _signal_hints(number: int) -> tuple[Alternative, ...]:
    if number != signal.SIGABRT:
        return ()
    return (
        Alternative(
            Cause.COLLECTIVE_MISMATCH,
            'look for "Received data size doesn\'t match expected size" in its stderr',
        ),
    )


def _evidence(named: list[Death], rest: list[Death]) -> tuple[Evidence, ...]:
    items: list[Evidence] = []
    for death in named[:_MOST_FOLLOWERS]:
        items.append(_death_evidence(death, Role.ROOT))
        process = death.state.process
        if death.signal == signal.SIGKILL or process.oom_kills:
            text = f"{process.oom_kills} out-of-memory kills in its cgroup"
            items.append(Evidence(f"rank {death.state.rank}: cgroup", text, Role.ROOT))
    return (*items, *followers_evidence(tuple(rest)))


def followers_evidence(deaths: tuple[Death, ...]) -> tuple[Evidence, ...]:
    """Quote the first failures that only followed."""
    return tuple(_death_evidence(death, Role.CASCADE) for death in deaths[:_MOST_FOLLOWERS])


def _death_evidence(death: Death, role: Role) -> Evidence:
    failure, rank = death.state.failure, death.state.rank
    if failure is None:
        code = exit_code(death.state)
        if death.state.process.exit_code is None and code is not None:
            text = f"its script called sys.exit({code}) {seconds_text(death.age)} ago"
            return Evidence(f"rank {rank}: sys.exit", text, role)
        text = "process gone, exit code " + ("unknown" if code is None else str(code))
        text += f", {seconds_text(death.age)} ago"
        return Evidence(f"rank {rank}: /proc", text, role)
    text = f"{failure.type}: {failure.message.strip()}"[:500]
    text += f" ({seconds_text(death.age)} ago)"
    if failure.at is None:
        return Evidence(f"rank {rank}: excepthook", text, role)
    at = failure.at
    text += f" at {place(at)}" + (f": {at.text.strip()}" if at.text else "")
    return Evidence(f"rank {rank}: excepthook", text, role, at.file, at.line)


def _counts(death: Death) -> Evidence:
    counts = ", ".join(f"{p.enqueued} in group {p.name}" for p in death.state.groups[:4])
    text = f"ended {seconds_text(death.age)} ago; collectives issued: {counts or 'none'}"
    return Evidence(f"rank {death.state.rank}: flight recorder", text, Role.ROOT)
