"""Settings in conflict: a timeout that should expire first does not."""

from collections.abc import Iterator

from unstuck.diagnose.text import ranks_text
from unstuck.diagnose.timeouts.without_effect import is_on, shown
from unstuck.durations import text as duration
from unstuck.model.timeouts import (
    JobSettings,
    Knob,
    KnobNote,
    Layer,
    NoteKind,
    Origin,
    default_group_timeout,
)

MARGIN = 0.5
"""A wait that took more than this share of a timeout may well take all of it next time."""
_DUMPS = 4
"""ProcessGroupNCCL's watchdog sleeps so many dump waits before it ends a rank."""
_LONG_INTERVAL = 1.0
_DEFAULT_GROUP = "default process group"


def find(job: JobSettings) -> Iterator[KnobNote]:
    """Report the settings that conflict with each other."""
    yield from _ranks_disagree(job)
    yield from _sub_groups(job)
    yield from _too_short(job)
    yield from _inside(job)
    yield from _scheduler(job)
    yield from _watchdog(job)
    yield from _launcher(job)


def groups(job: JobSettings) -> list[Knob]:
    """Return the process groups whose timeout is known."""
    return [k for k in job.knobs if k.layer is Layer.GROUP and k.seconds is not None]


def shortest(job: JobSettings) -> Knob | None:
    """Return the group that gives up first."""
    return min(groups(job), key=lambda knob: knob.seconds or 0.0, default=None)


def _conflict(text: str, *knobs: str, source: str = "") -> KnobNote:
    return KnobNote(NoteKind.CONFLICT, knobs, text, source)


def _ranks_disagree(job: JobSettings) -> Iterator[KnobNote]:
    split: dict[str, list[Knob]] = {}
    for knob in groups(job):
        if knob.ranks:
            split.setdefault(knob.name, []).append(knob)
    for name, knobs in split.items():
        if len(knobs) < 2:
            continue
        values = ", ".join(f"{ranks_text(k.ranks)} {duration(k.seconds or 0.0)}" for k in knobs)
        text = f"its members have different timeouts ({values}): the shortest ends it for all"
        yield _conflict(text, name)


def _sub_groups(job: JobSettings) -> Iterator[KnobNote]:
    """The timeout of init_process_group reaches no other group: each falls back to the default."""
    main = next((k for k in groups(job) if k.name == _DEFAULT_GROUP), None)
    if main is None or main.origin is Origin.DEFAULT:
        return
    fallen = [
        knob
        for knob in groups(job)
        if knob.name != _DEFAULT_GROUP
        and knob.origin is Origin.DEFAULT
        and knob.seconds == default_group_timeout(knob.backend or main.backend)
    ]
    if fallen:
        names = tuple(dict.fromkeys(knob.name for knob in fallen))
        several = len(names) > 1
        text = (
            f"fall{'' if several else 's'} back to torch's default of "
            f"{duration(fallen[0].seconds or 0.0)}, made without timeout=: the "
            f"{duration(main.seconds or 0.0)} of init_process_group do not reach "
            f"{'them' if several else 'it'}"
        )
        yield _conflict(text, *names, source="torch 2.13, new_group in distributed_c10d.py")


def _too_short(job: JobSettings) -> Iterator[KnobNote]:
    for knob in groups(job):
        seconds = knob.seconds or 0.0
        if job.waited > MARGIN * seconds:
            text = (
                f"an operation has already been in flight for {duration(job.waited)} of the "
                f"{duration(seconds)} it may take"
            )
            yield _conflict(text, knob.name, source="measured in this job")
        elif job.longest > MARGIN * seconds:
            at = f" at {job.longest_at}" if job.longest_at else ""
            text = (
                f"a rank works alone for up to {duration(job.longest)}{at}, and the others give "
                f"up after {duration(seconds)}"
            )
            yield _conflict(text, knob.name)


def _inside(job: JobSettings) -> Iterator[KnobNote]:
    """What is inside a step must end before the group of those who wait for it does."""
    group = shortest(job)
    if group is None or group.seconds is None:
        return
    for knob in inside(job):
        if knob.seconds is not None and knob.seconds >= group.seconds:
            text = (
                f"outlasts the ranks that wait for it: it may take {duration(knob.seconds)}, they "
                f"give up after {duration(group.seconds)} ({group.name})"
            )
            yield _conflict(text, knob.name)


def inside(job: JobSettings) -> list[Knob]:
    """Return what must end before the group of those who wait.

    The timeout of torch's own barrier replaces that of its group, so it contradicts nothing;
    those of `unstuck.dist` wait for an operation that has the group's.
    """
    return [
        knob
        for knob in job.knobs
        if knob.layer is Layer.SECTION
        or (knob.layer is Layer.OPERATION and knob.name.startswith("unstuck."))
        or (knob.layer is Layer.UNSTUCK and knob.origin is Origin.COMMAND)
    ]


def limit_of(job: JobSettings) -> Knob | None:
    """Return the scheduler's limit, where it is known."""
    return next((k for k in job.knobs if k.layer is Layer.SCHEDULER and k.seconds), None)


def _scheduler(job: JobSettings) -> Iterator[KnobNote]:
    limit = limit_of(job)
    late = [k for k in groups(job) if limit and (k.seconds or 0.0) >= (limit.seconds or 0.0)]
    if limit and late:
        text = (
            f"ends the job before torch would notice a hang: after "
            f"{duration(limit.seconds or 0.0)}, while {late[0].name} waits "
            f"{duration(late[0].seconds or 0.0)}"
        )
        yield _conflict(text, limit.name, *dict.fromkeys(knob.name for knob in late))


def _watchdog(job: JobSettings) -> Iterator[KnobNote]:
    if job.backends and not any("nccl" in backend for backend in job.backends):
        return
    knobs = {k.name: k for k in job.knobs if k.layer is Layer.WATCHDOG}
    blocking = knobs.get("TORCH_NCCL_BLOCKING_WAIT") or knobs.get("NCCL_BLOCKING_WAIT")
    if blocking and is_on(blocking.value):
        return
    yield from _heartbeat(knobs)
    handling = knobs.get("TORCH_NCCL_ASYNC_ERROR_HANDLING") or knobs.get(
        "NCCL_ASYNC_ERROR_HANDLING"
    )
    if handling and handling.value.strip() == "0":
        text = (
            "the watchdog notes a timeout and ends nothing: no timeout of an NCCL group has any "
            "effect, a hang lasts until the scheduler's limit"
        )
        yield _conflict(text, shown(handling), source="torch 2.13, ProcessGroupNCCL.cpp")


def _heartbeat(knobs: dict[str, Knob]) -> Iterator[KnobNote]:
    """While the watchdog waits for dumps it does not beat, and its own monitor would end it."""
    beat = knobs.get("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC")
    dump = knobs.get("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC")
    limit = beat.seconds if beat and beat.seconds is not None else 480.0
    waits = _DUMPS * (dump.seconds if dump and dump.seconds is not None else 15.0)
    given = [k for k in (beat, dump) if k and k.origin is not Origin.DEFAULT]
    if given and limit <= waits:
        text = (
            f"after a timeout the watchdog waits {duration(waits)} for the dumps (four times "
            f"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC) without a beat, longer than the "
            f"{duration(limit)} of TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC: the rank is ended as "
            "`watchdog got stuck`, and the collective that timed out is not named"
        )
        names = (shown(k) for k in given)
        yield _conflict(text, *names, source="torch 2.13, ProcessGroupNCCL.cpp")


def _launcher(job: JobSettings) -> Iterator[KnobNote]:
    for knob in job.knobs:
        given = knob.origin is not Origin.DEFAULT and knob.seconds is not None
        if knob.name == "monitor interval" and given and (knob.seconds or 0.0) > _LONG_INTERVAL:
            text = (
                f"torchrun looks at its workers every {duration(knob.seconds or 0.0)}: by then the "
                "victims are dead too, and it may name one of them as the root cause"
            )
            yield KnobNote(NoteKind.HINT, (knob.where,), text, "measured with torch 2.13")
        if knob.name == "shutdown timeout" and given:
            text = (
                "is used only when torchrun itself is asked to stop; a restart gives a stopped "
                "worker 30 s all the same"
            )
            yield KnobNote(NoteKind.HINT, (knob.where,), text, "measured with torch 2.13")
