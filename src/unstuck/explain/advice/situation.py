"""Which table of `texts.toml` fits a verdict: by its cause, and by what the culprit does."""

from collections.abc import Callable

from unstuck.model import doing as d
from unstuck.model.verdict import Cause, Confidence, Culprit, Verdict

NOBODY = Culprit(rank=-1, host="", doing="")
_DEVICE_MEMORY = ("cuda out of memory", "outofmemoryerror", "device memory", "gpu memory")
_SAVING = ("save(", "save_", "checkpoint", ".write(")
_BY_SIGNAL = ("SIGKILL", "SIGSEGV", "SIGBUS", "SIGABRT", "SIGTERM", "SIGHUP")


def first_culprit(verdict: Verdict) -> Culprit:
    """Return the first culprit of the verdict's own cause; `NOBODY` where there is none."""
    own = (one for one in verdict.culprits if one.cause is None)
    return next(own, verdict.culprits[0] if verdict.culprits else NOBODY)


def situation(verdict: Verdict) -> str:
    """Name the table with the advice for a verdict: `host-deadlock/gil`, `uneven-work`."""
    choose = _CHOICES.get(verdict.cause)
    variant = choose(verdict, first_culprit(verdict)) if choose else ""
    return f"{verdict.cause}/{variant}" if variant else str(verdict.cause)


def _partition(verdict: Verdict, _first: Culprit) -> str:
    if verdict.until:
        return "back" if verdict.victims else "over"
    return "between" if verdict.cut else ""


def _never_joined(_verdict: Verdict, first: Culprit) -> str:
    if isinstance(first.activity, d.Ended):
        return "ended"
    return "late" if first.pid else ""


def _crash(_verdict: Verdict, first: Culprit) -> str:
    match first.activity:
        case d.Raised(error=error):
            return "SIGBUS" if "bus error" in error.lower() else "raised"
        case d.Killed(how=(d.During.SHUTDOWN | d.During.AFTER_DESTROY) as how):
            return str(how)
        case d.Killed(signal="SIGSEGV", how=d.During.LINE):
            return "SIGSEGV-line"
        case d.Killed(signal=signal) | d.LostLauncher(signal=signal) if signal in _BY_SIGNAL:
            return signal
        case d.Ended(how=d.Ending.VANISHED):
            return "SIGKILL"
        case _:
            return ""


def _out_of_memory(_verdict: Verdict, first: Culprit) -> str:
    match first.activity:
        case d.Raised(error=error):
            on_device = any(words in error.lower() for words in _DEVICE_MEMORY)
            return "device" if on_device else "raised"
        case _:
            return ""


def _stopped(_verdict: Verdict, first: Culprit) -> str:
    match first.activity:
        case d.Stopped(how=(d.Hold.DEBUGGER | d.Hold.FREEZER) as how):
            return str(how)
        case _:
            return ""


def _contention(_verdict: Verdict, first: Culprit) -> str:
    match first.activity:
        case (d.Starved() as lacks) | d.Slow(lacks=d.Starved() as lacks):
            if lacks.how is not d.Resource.CORE:
                return str(lacks.how)
            return "taker" if lacks.taker else ""
        case _:
            return ""


def _deadlock(_verdict: Verdict, first: Culprit) -> str:
    match first.activity:
        case d.WaitsForProcess(how=d.Child.STOPPED):
            return "child-stopped"
        case d.WaitsForProcess(how=d.Child.LOCKED):
            return "child-locked"
        case d.WaitsForFileLock(holders=holders):
            return "file-lock-held" if holders else "file-lock"
        case d.WaitsForReader(readers=readers):
            return "full-pipe-read" if readers else "full-pipe"
        case activity:
            return _DEADLOCKS.get(type(activity), "")


def _hardware(_verdict: Verdict, first: Culprit) -> str:
    return "device" if isinstance(first.activity, d.DeviceStopped) else ""


def _mismatch(verdict: Verdict, first: Culprit) -> str:
    match first.activity:
        case d.InCall(call="new_group") | d.InCall(skipped="new_group"):
            return "new-group"
        case d.Unanswered() | d.Unposted():
            return "message"
        case _:
            return "" if verdict.culprits else "nobody"


def _inversion(verdict: Verdict, _first: Culprit) -> str:
    return "even" if verdict.confidence is Confidence.POSSIBLE else ""  # no order has a majority


def _uneven(_verdict: Verdict, first: Culprit) -> str:
    return "more" if isinstance(first.activity, d.StillInLoop) else ""


def _busy(verdict: Verdict, first: Culprit) -> str:
    from_log = bool(verdict.records)  # a log seldom says which rank waited, or for which one
    if not verdict.culprits and not from_log:
        return "all"
    if not verdict.victims and not from_log:
        return "lingers"
    if isinstance(first.activity, d.Asleep):
        return "asleep"
    if isinstance(first.activity, d.WaitsForData | d.WaitsForProcess):
        return "data"
    if isinstance(first.activity, d.WaitsForInput):
        return "input"
    section = first.activity.section if first.activity else ""
    code = f"{first.function} {first.code} {section}".lower()
    saving = isinstance(first.activity, d.Busy) and first.activity.how is d.Work.SAVING
    return "saving" if saving or any(word in code for word in _SAVING) else ""


def _unknown(_verdict: Verdict, first: Culprit) -> str:
    return "rank" if first.rank >= 0 else ""


_DEADLOCKS: dict[type[object], str] = {
    d.HoldsGil: "gil",
    d.WaitsForWorkers: "dataloader",
    d.WaitsForInput: "queue",
    d.WaitsForThread: "thread",
    d.WaitsForDisk: "disk",
    d.WaitsForData: "data",
    d.WaitsForProcess: "data",
}
_CHOICES: dict[Cause, Callable[[Verdict, Culprit], str]] = {
    Cause.NETWORK_PARTITION: _partition,
    Cause.NEVER_JOINED: _never_joined,
    Cause.PROCESS_CRASH: _crash,
    Cause.OUT_OF_MEMORY: _out_of_memory,
    Cause.PROCESS_STOPPED: _stopped,
    Cause.RESOURCE_CONTENTION: _contention,
    Cause.HOST_DEADLOCK: _deadlock,
    Cause.HARDWARE_FAULT: _hardware,
    Cause.COLLECTIVE_MISMATCH: _mismatch,
    Cause.ORDER_INVERSION: _inversion,
    Cause.UNEVEN_WORK: _uneven,
    Cause.BUSY_ELSEWHERE: _busy,
    Cause.UNKNOWN: _unknown,
}
