"""Settings without effect. Each claim was tried on gloo or read in torch's source."""

from collections.abc import Iterator
from difflib import get_close_matches

from unstuck.model.timeouts import JobSettings, Knob, KnobNote, Layer, NoteKind, Origin

NOBODY_READS = frozenset(
    {"NCCL_TIMEOUT", "NCCL_TIMEOUT_MS", "NCCL_TIMEOUT_SEC", "NCCL_TIMEOUT_MINUTES",
     "TORCH_NCCL_TIMEOUT", "TORCH_NCCL_TIMEOUT_SEC", "GLOO_TIMEOUT", "TORCH_GLOO_TIMEOUT",
     "TORCH_DIST_TIMEOUT", "TORCH_DISTRIBUTED_TIMEOUT", "TORCH_DISTRIBUTED_TIMEOUTS",
     "DIST_TIMEOUT", "PG_TIMEOUT"}
)  # fmt: skip
"""In no library of torch 2.13 and not among NCCL's documented variables."""
_TORCH_NCCL = frozenset(
    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_BLOCKING_WAIT", "TORCH_NCCL_COORD_CHECK_MILSEC",
     "TORCH_NCCL_ENABLE_MONITORING", "TORCH_NCCL_DUMP_ON_TIMEOUT",
     "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "TORCH_NCCL_NONBLOCKING_TIMEOUT",
     "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"}
)  # fmt: skip
_OLD = {
    "NCCL_ASYNC_ERROR_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT": "TORCH_NCCL_BLOCKING_WAIT",
}
_HEADER = "torch 2.13, ProcessGroupNCCL.hpp"
_DOCS = "https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html"
_NVIDIA = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
_OF_THE_WATCHDOG = frozenset(
    {"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "TORCH_NCCL_ASYNC_ERROR_HANDLING",
     "NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING", "TORCH_NCCL_DUMP_ON_TIMEOUT",
     "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "TORCH_NCCL_COORD_CHECK_MILSEC"}
)  # fmt: skip


def find(job: JobSettings) -> Iterator[KnobNote]:
    """Name the settings of a job that have no effect."""
    given = [knob for knob in job.knobs if knob.layer is Layer.WATCHDOG and _is_given(knob)]
    for knob in given:
        if knob.name in job.read_by_script:
            continue
        if note := _unread(knob) or _without_nccl(knob, job) or _switched_off(knob, given):
            yield note
        elif knob.name in _OLD:
            yield _old(knob)


def _is_given(knob: Knob) -> bool:
    return knob.origin is not Origin.DEFAULT


def shown(knob: Knob) -> str:
    """Write a variable with its value: `NCCL_TIMEOUT=5400`."""
    return f"{knob.name}={knob.value}" if knob.value else knob.name


def is_on(value: str) -> bool:
    """Read a switch as torch does: `1`, `y`, `yes`, `t`, `true`."""
    return value.strip().lower() in ("1", "y", "yes", "t", "true")


def _note(knob: Knob, text: str, source: str) -> KnobNote:
    return KnobNote(NoteKind.IDLE, (shown(knob),), text, source)


def _unread(knob: Knob) -> KnobNote | None:
    if knob.name in NOBODY_READS:
        text = "neither torch nor NCCL reads it; the limit is timeout= of init_process_group"
        return _note(knob, text, f"{_DOCS}, {_NVIDIA}")
    if knob.name.startswith("TORCH_NCCL_") and knob.name not in _TORCH_NCCL:
        near = get_close_matches(knob.name, _TORCH_NCCL, n=1, cutoff=0.8)
        if near and "TIMEOUT" in knob.name:
            return _note(knob, f"torch does not know it; did you mean {near[0]}?", _HEADER)
    return None


def _without_nccl(knob: Knob, job: JobSettings) -> KnobNote | None:
    """NCCL's variables in a job whose groups are known and none of them is NCCL's."""
    if not job.backends or any("nccl" in backend for backend in job.backends):
        return None
    if not knob.name.startswith(("TORCH_NCCL_", "NCCL_")):
        return None
    return _note(knob, f"no group of this job uses NCCL ({', '.join(job.backends)} only)", _HEADER)


def _switched_off(knob: Knob, given: list[Knob]) -> KnobNote | None:
    values = {other.name: other.value for other in given}
    blocking = values.get("TORCH_NCCL_BLOCKING_WAIT", values.get("NCCL_BLOCKING_WAIT", "0"))
    if is_on(blocking) and knob.name in _OF_THE_WATCHDOG:
        text = (
            "with TORCH_NCCL_BLOCKING_WAIT=1 torch starts no watchdog thread, so nothing reads it"
        )
        return _note(knob, text, "torch 2.13, ProcessGroupNCCL.cpp")
    monitoring = values.get("TORCH_NCCL_ENABLE_MONITORING", "1")
    if knob.name == "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC" and not is_on(monitoring):
        text = "with TORCH_NCCL_ENABLE_MONITORING=0 a stuck watchdog is logged and nothing is ended"
        return _note(knob, text, "torch 2.13, ProcessGroupNCCL.cpp")
    return None


def _old(knob: Knob) -> KnobNote:
    text = f"an old name; torch 2.13 still reads it, with a warning: write {_OLD[knob.name]}"
    return KnobNote(NoteKind.HINT, (shown(knob),), text, _HEADER)
