"""The timeouts that variables set: NCCL's threads in torch, and the scheduler's limit."""

import contextlib
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime

from unstuck import durations
from unstuck.model.timeouts import Knob, Layer, Origin
from unstuck.observe.probe.own_timeouts import relevant

_SECONDS = {
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": (
        480.0,
        1.0,
        "for NCCL's watchdog thread itself to make progress, not for a collective",
    ),
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": (
        15.0,
        0.001,
        "for a flight-recorder dump; four times this passes between a timeout and the rank's end",
    ),
    "TORCH_NCCL_COORD_CHECK_MILSEC": (1.0, 0.001, "between two looks for a dump signal"),
}
"""Name -> default, seconds a unit, what it is. From ProcessGroupNCCL of torch 2.13."""
_SHOWN_BY_DEFAULT = ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC")
_ELSEWHERE = (
    *("SLURM_", "KUBERNETES_", "PET_", "TORCHELASTIC_RUN_ID"),
    *("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "TORCH_DISTRIBUTED_DEBUG"),
)
_SCONTROL_WITHIN = 2.0


def read(env: Mapping[str, str], *, nccl: bool) -> tuple[Knob, ...]:
    """Return the variables that are set, and with NCCL also the defaults that matter."""
    names = [name for name in relevant(env) if not name.startswith(_ELSEWHERE)]
    found = [_knob(name, env[name]) for name in names if not _by_torchrun(name, env)]
    if nccl:
        found += [
            Knob(name, Layer.WATCHDOG, _SECONDS[name][0], about=_SECONDS[name][2])
            for name in _SHOWN_BY_DEFAULT
            if name not in env
        ]
    return tuple(found)


def _by_torchrun(name: str, env: Mapping[str, str]) -> bool:
    """Tell whether torchrun set it: it does in every worker, unless the user did."""
    given = name == "TORCH_NCCL_ASYNC_ERROR_HANDLING" and env[name] == "1"
    return given and "TORCHELASTIC_RUN_ID" in env


def _knob(name: str, value: str) -> Knob:
    _, unit, about = _SECONDS.get(name, (0.0, 0.0, ""))
    seconds = None
    if unit:
        with contextlib.suppress(ValueError):
            seconds = float(value) * unit
    return Knob(name, Layer.WATCHDOG, seconds, value, Origin.ENVIRONMENT, about=about)


def scheduler(
    env: Mapping[str, str], now: float, *, ask: bool = False
) -> tuple[tuple[Knob, ...], tuple[str, ...]]:
    """Return the scheduler's limit, and what cannot be seen of it; `ask` may call scontrol."""
    if job := env.get("SLURM_JOB_ID"):
        limit = _slurm_limit(env, now) or (_ask_slurm(job) if ask else None)
        if limit is None:
            return (), (f"the time limit of Slurm job {job}: scontrol show job {job}",)
        seconds, about = limit
        name = f"Slurm job {job}"
        return (Knob(name, Layer.SCHEDULER, seconds, origin=Origin.SCHEDULER, about=about),), ()
    if "KUBERNETES_SERVICE_HOST" in env:
        text = (
            "activeDeadlineSeconds of the Kubernetes job, which is not visible inside a pod; "
            "give it with --limit"
        )
        return (), (text,)
    return (), ()


_DIGITS = 11
"""Of a Unix time in the next thousand years."""


def _slurm_limit(env: Mapping[str, str], now: float) -> tuple[float, str] | None:
    start, end = env.get("SLURM_JOB_START_TIME", ""), env.get("SLURM_JOB_END_TIME", "")
    if not end.isdecimal() or len(end) > _DIGITS or len(start) > _DIGITS:
        return None
    begun = int(start) if start.isdecimal() else now
    at = datetime.fromtimestamp(int(end), UTC).strftime("%Y-%m-%d %H:%M UTC")
    return max(0.0, int(end) - begun), f"ends {at}"


def _ask_slurm(job: str) -> tuple[float, str] | None:
    try:
        done = subprocess.run(
            ["scontrol", "show", "job", job, "--oneliner"],
            capture_output=True,
            text=True,
            timeout=_SCONTROL_WITHIN,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    pairs = (word.partition("=") for word in done.stdout.split())
    fields = {name: value for name, _, value in pairs}
    seconds = durations.parse(fields.get("TimeLimit", ""))
    return None if seconds is None else (seconds, f"ends {fields.get('EndTime', 'unknown')}")
