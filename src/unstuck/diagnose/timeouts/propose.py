"""A consistent set: each layer expires before the next one; settings without effect go."""

import math
from collections.abc import Iterator

from unstuck.diagnose.timeouts.conflicts import groups, inside, limit_of, shortest
from unstuck.durations import text as duration
from unstuck.model.timeouts import JobSettings, Knob, KnobNote, Layer, NoteKind, Origin, Setting

TIMES = 3
"""A group waits this many times the longest that a rank was seen, or said, to work alone."""
BEYOND = 1.5
"""And this many times the longest deadline inside it."""
OF_THE_LIMIT = 0.25
"""Where the scheduler ends the job first: so much of its limit."""
LEAST = 120.0
_STEPS = (60, 120, 180, 300, 600, 900, 1200, 1800, 2700, 3600)
_DEFAULT_GROUP = "default process group"
_DEFAULTS_FIT = {
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "torch's defaults, 480 s and 15 s, go together",
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "torch's defaults, 480 s and 15 s, go together",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "the default, 3, ends a rank that timed out",
    "NCCL_ASYNC_ERROR_HANDLING": "the default, 3, ends a rank that timed out",
}


def propose(job: JobSettings, notes: tuple[KnobNote, ...]) -> tuple[Setting, ...]:
    """Return the lines that make the set consistent; nothing where nothing is wrong."""
    idle = {name for note in notes if note.kind is NoteKind.IDLE for name in note.knobs}
    wrong = {name for note in notes if note.kind is NoteKind.CONFLICT for name in note.knobs}
    return (*_shell(job, idle, wrong), *_command(idle), *_script(job, wrong), *_batch(job))


def group_seconds(job: JobSettings) -> float:
    """Return one timeout for all groups: what the user gave, unless it cannot be right."""
    main = _main(job) or shortest(job)
    wanted = main.seconds if main and main.seconds else 600.0
    needed = max(TIMES * max(job.longest, job.waited), BEYOND * _longest_inside(job))
    if wanted < needed:
        wanted = _round_up(max(LEAST, needed))
    limit = limit_of(job)
    if limit and limit.seconds and wanted >= limit.seconds:
        wanted = max(_round_down(OF_THE_LIMIT * limit.seconds), needed)
    return wanted


def _main(job: JobSettings) -> Knob | None:
    return next((k for k in groups(job) if k.name == _DEFAULT_GROUP), None)


def _longest_inside(job: JobSettings) -> float:
    return max((knob.seconds or 0.0 for knob in inside(job)), default=0.0)


def _round_up(seconds: float) -> float:
    fits = next((step for step in _STEPS if seconds <= step), None)
    return float(fits) if fits else math.ceil(seconds / 1800) * 1800.0


def _round_down(seconds: float) -> float:
    return float(max((step for step in _STEPS if step <= seconds), default=max(1, int(seconds))))


def _shell(job: JobSettings, idle: set[str], wrong: set[str]) -> Iterator[Setting]:
    unused = {name.partition("=")[0] for name in idle}
    contradicts = {name.partition("=")[0] for name in wrong}
    for knob in job.knobs:
        name = knob.name
        if knob.layer is not Layer.WATCHDOG or knob.origin is Origin.DEFAULT:
            continue
        if name in unused:
            yield _unset(knob, "it has no effect here")
        elif name in contradicts and name in _DEFAULTS_FIT:
            yield _unset(knob, _DEFAULTS_FIT[name])


def _unset(knob: Knob, why: str) -> Setting:
    if knob.origin is Origin.SCRIPT:
        return Setting(knob.where, f'os.environ.pop("{knob.name}", None)', why)
    return Setting("shell", f"unset {knob.name}", why)


def _command(idle: set[str]) -> Iterator[Setting]:
    for name in sorted(idle):
        if name.startswith("--rdzv-conf "):
            pair = name.removeprefix("--rdzv-conf ")
            yield Setting("command", f"--rdzv-conf without {pair}", "it is not read")


def _script(job: JobSettings, wrong: set[str]) -> Iterator[Setting]:
    if not wrong & {knob.name for knob in (*groups(job), *inside(job))}:
        return
    wanted = group_seconds(job)
    proposed: set[str] = set()
    for knob in groups(job):
        if knob.seconds != wanted and knob.name not in proposed:
            proposed.add(knob.name)
            yield _line(job, knob, wanted)


def _batch(job: JobSettings) -> Iterator[Setting]:
    """Where the work itself needs more than the scheduler gives, only a longer limit helps."""
    limit, wanted = limit_of(job), group_seconds(job)
    if limit and limit.seconds and groups(job) and wanted >= limit.seconds:
        least = _round_up(wanted / OF_THE_LIMIT)
        why = f"{limit.name} ends the job before {duration(wanted)} of waiting are over"
        yield Setting("scheduler", f"a limit of {duration(least)} or more", why)


def _line(job: JobSettings, knob: Knob, wanted: float) -> Setting:
    delta = f"timedelta(seconds={wanted:g})"
    place = knob.where or "script"
    if knob.name == _DEFAULT_GROUP:
        return Setting(place, f"dist.init_process_group(..., timeout={delta})", _why(job, wanted))
    why = f"{duration(wanted)}, as the default group"
    if "mesh" in knob.name:
        name = knob.name.removeprefix("mesh_") if knob.name.startswith("mesh_") else "..."
        call = f'_set_pg_timeout({delta}, mesh.get_group("{name}"))'
        return Setting(place, f"torch.distributed.distributed_c10d.{call}", why)
    return Setting(place, f"dist.new_group(..., timeout={delta})", why)


def _why(job: JobSettings, wanted: float) -> str:
    work, within = max(job.waited, job.longest), _longest_inside(job)
    limit = limit_of(job)
    main = _main(job)
    if limit and limit.seconds and main and (main.seconds or 0.0) >= limit.seconds > wanted:
        return f"{duration(wanted)}: a hang must show well before {limit.name} ends"
    if TIMES * work >= BEYOND * within and work:
        return f"{duration(wanted)}: three times the longest so far, {duration(work)}"
    return f"{duration(wanted)}: longer than what is inside it, {duration(within)}"
