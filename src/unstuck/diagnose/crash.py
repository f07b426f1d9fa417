"""The verdict on deaths: why the first one died, or that somebody left too early."""

import signal
from typing import NamedTuple

from msgspec.structs import replace

from unstuck.diagnose.blocked import call_in_progress
from unstuck.diagnose.deaths import (
    SIMULTANEOUS,
    Death,
    Deaths,
    exit_code,
    left_in_order,
    tells_of_a_peer,
    timed_out,
)
from unstuck.diagnose.finding import Finding, culprit, stack_evidence
from unstuck.diagnose.standing import Job
from unstuck.diagnose.uneven import steps_evidence
from unstuck.diagnose.words import place, ranks_text, seconds_text
from unstuck.model.rank import Failure, RankState
from unstuck.model.verdict import Alternative, Cause, Confidence, Culprit, Evidence

_NO_MEMORY = ("out of memory", "can't allocate memory", "Cannot allocate memory")
_MOST_FOLLOWERS = 5
_CRASH = Cause.PROCESS_CRASH
_KERNEL_LOG = Alternative(
    Cause.OUT_OF_MEMORY, "search the kernel log of its host (dmesg) for an out-of-memory kill"
)


class _Reason(NamedTuple):
    cause: Cause
    confidence: Confidence
    phrase: str
    because: str
    alternatives: tuple[Alternative, ...] = ()


def explain_roots(job: Job, deaths: Deaths) -> Finding:
    """Say why the first rank died, and name with it those that died the same way or with it."""
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
    """Say that gloo aborted a rank that waited in a collective: what it was sent did not fit.

    Whoever sent it is to blame, and is not known here.
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
                f"rank {rank}'s own error output would not say \"Received data size doesn't match "
                'expected size"',
            ),
        ),
        summary=f"Rank {rank} was aborted inside {call}: another rank seems to have sent it a "
        "tensor of another size; which one is not known.",
    )


def explain_leavers(job: Job, deaths: Deaths) -> Finding:
    """Say that ranks ended successfully while others still needed them."""
    finished = all(_had_left_its_loops(death.state) for death in deaths.leavers)
    told = "came to the end of its loop" if finished else "ended successfully"
    culprits = tuple(
        _dead(death, f"{told} while others still needed it")
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
        + (", which destroyed its groups after its loop" if finished else ""),
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
    """Tell whether a rank gave its groups up outside of every loop, as at the end of a script."""
    return state.left_for is not None and state.loops == ()


def explain_followers(job: Job, deaths: Deaths) -> Finding:
    """Say that the root is not to be seen, and which rank ended first if none complained before.

    A rank that complains of a peer is not named: another one is to blame.
    """
    first = deaths.followers[0]
    alone = _ended_alone(deaths.followers)
    named = (culprit(first.state, "is the first that ended", first.age),) if alone else ()
    return Finding(
        cause=Cause.PROCESS_CRASH if alone else Cause.UNKNOWN,
        confidence=Confidence.POSSIBLE,
        because="only consequences are visible: every failure seen is of the kind that another "
        "rank's end or delay causes",
        culprits=named,
        victims=_others(job, named),
        seconds=first.age,
        evidence=followers_evidence(deaths.followers),
        alternatives=(
            Alternative(Cause.NETWORK_PARTITION, "check the links between the hosts"),
            Alternative(Cause.UNKNOWN, "read the logs of the rank that did not complain"),
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
        return "Several ranks were ended in the same moment; by whom is not known."
    if timed_out(first.state):
        return f"Rank {first.state.rank} gave up waiting first; for whom it waited is not known."
    return f"Rank {first.state.rank} lost a peer first; which one broke off is not known."


def _others(job: Job, culprits: tuple[Culprit, ...]) -> tuple[int, ...]:
    blamed = {one.rank for one in culprits}
    return tuple(
        rank
        for rank, state in job.states.items()
        if rank not in blamed and not left_in_order(state)
    )


def _dead(death: Death, doing: str) -> Culprit:
    at = death.state.failure.at if death.state.failure else None
    return culprit(death.state, doing, death.age, at)


def _root(death: Death, cause: Cause) -> Culprit:
    """Name a rank that died by itself, with its own cause where that is another one."""
    reason = _reason(death)
    found = _dead(death, reason.phrase)
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
        return _by_memory_killer(death, "is gone without a word")
    if code is None:
        return _Reason(
            Cause.PROCESS_CRASH,
            Confidence.LIKELY,
            "is gone without a word",
            "its process ended in the middle of its work; the exit code is not known",
            (_KERNEL_LOG,),
        )
    return _Reason(
        Cause.PROCESS_CRASH,
        Confidence.CERTAIN,
        f"ended with exit code {code}",
        f"its exit code is {code} and it ended before all others"
        if death.state.process.exit_code is not None
        else f"its script called sys.exit({code}) before any other rank ended",
        (),
    )


def _by_exception(failure: Failure) -> _Reason:
    message = failure.message.strip().splitlines()
    told = f"{failure.type}: {message[0]}" if message else failure.type
    no_memory = "MemoryError" in failure.type or any(
        words.lower() in failure.message.lower() for words in _NO_MEMORY
    )
    return _Reason(
        Cause.OUT_OF_MEMORY if no_memory or "OutOfMemory" in failure.type else _CRASH,
        Confidence.CERTAIN,
        f"failed with {told[:200]}",
        "its own exception came before every other failure",
        (),
    )


def _by_signal(death: Death) -> _Reason:
    name = signal_name(death.signal)
    process = death.state.process
    if death.state.phase == "exit":
        destroyed = death.state.left_for is not None
        done = " and destroyed its groups," if destroyed else ""
        told = f"had finished its work{done} and died by {name} while leaving the interpreter"
        because = "its script had ended; threads of torch were still running" + (
            "" if destroyed else ", which destroy_process_group() at its end all but prevents"
        )
        return _Reason(_CRASH, Confidence.CERTAIN, told, because, ())
    told = f"was killed by {name}"
    if death.signal != signal.SIGKILL:
        because = f"its process ended by {name} before all others"
        if death.state.crashed_in == "python":
            return _Reason(_CRASH, Confidence.CERTAIN, f"{told} in this line", because)
        # gloo aborts the receiver of what another rank sent wrongly: it need not be to blame.
        sure = Confidence.LIKELY if death.signal == signal.SIGABRT else Confidence.CERTAIN
        return _Reason(_CRASH, sure, told, because, _signal_hints(death.signal))
    if process.oom_kills > 0:
        return _by_memory_killer(death, told)
    because = (
        "its process ended by SIGKILL before all others; its cgroup counts no out-of-memory kill"
    )
    return _Reason(_CRASH, Confidence.CERTAIN, told, because, (_KERNEL_LOG,))


def _by_memory_killer(death: Death, told: str) -> _Reason:
    kills = death.state.process.oom_kills
    because = f"its cgroup counts {kills} kills by the out-of-memory killer"
    other = Alternative(_CRASH, "see in the kernel log (dmesg) which process was killed")
    return _Reason(Cause.OUT_OF_MEMORY, Confidence.LIKELY, told, because, (other,))


def _signal_hints(number: int) -> tuple[Alternative, ...]:
    if number != signal.SIGABRT:
        return ()
    return (
        Alternative(
            Cause.COLLECTIVE_MISMATCH,
            'look for "Received data size doesn\'t match expected size" in its error output',
        ),
    )


def signal_name(number: int) -> str:
    """Write a signal's name: `SIGKILL`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _evidence(named: list[Death], rest: list[Death]) -> tuple[Evidence, ...]:
    items: list[Evidence] = []
    for death in named[:_MOST_FOLLOWERS]:
        items.append(_death_evidence(death, "root"))
        process = death.state.process
        if death.signal == signal.SIGKILL or process.oom_kills:
            text = f"{process.oom_kills} out-of-memory kills in its cgroup"
            items.append(Evidence(f"rank {death.state.rank}: cgroup", text, "root"))
    return (*items, *followers_evidence(tuple(rest)))


def followers_evidence(deaths: tuple[Death, ...]) -> tuple[Evidence, ...]:
    """Quote the first failures that only followed."""
    return tuple(_death_evidence(death, "cascade") for death in deaths[:_MOST_FOLLOWERS])


def _death_evidence(death: Death, role: str) -> Evidence:
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
    told = ", ".join(f"{p.enqueued} in group {p.name}" for p in death.state.groups[:4])
    text = f"ended {seconds_text(death.age)} ago after these collectives: {told or 'none'}"
    return Evidence(f"rank {death.state.rank}: flight recorder", text, "root")
