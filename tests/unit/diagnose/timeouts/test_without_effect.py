"""Settings that do nothing are named, and those that do something are not."""

import pytest

from unstuck.diagnose.timeouts import without_effect
from unstuck.model.timeouts import JobSettings, KnobNote, NoteKind
from unstuck.observe.timeouts import environment

HEARTBEAT = "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"


def notes(
    env: dict[str, str], backend: str = "nccl", reads: tuple[str, ...] = ()
) -> list[KnobNote]:
    backends = (backend,) if backend else ()
    knobs = environment.read(env, nccl=backend == "nccl")
    return list(without_effect.find(JobSettings("job", knobs, backends, read_by_script=reads)))


def does_nothing(env: dict[str, str], backend: str = "nccl") -> list[str]:
    return [n.knobs[0] for n in notes(env, backend) if n.kind is NoteKind.IDLE]


@pytest.mark.parametrize("name", sorted(without_effect.NOBODY_READS))
def test_variables_that_nobody_reads(name: str) -> None:
    assert does_nothing({name: "5400"}) == [f"{name}=5400"]


def test_unless_the_script_reads_it_itself() -> None:
    assert notes({"NCCL_TIMEOUT": "5400"}, reads=("NCCL_TIMEOUT",)) == []


@pytest.mark.parametrize("name", ["NCCL_IB_TIMEOUT", HEARTBEAT, "TORCH_NCCL_BLOCKING_WAIT"])
def test_variables_that_do_something_are_left_in_peace(name: str) -> None:
    assert does_nothing({name: "1"}) == []


@pytest.mark.parametrize("name", ["NCCL_IB_TIMEOUT", HEARTBEAT, "TORCH_NCCL_BLOCKING_WAIT"])
def test_without_nccl_they_do_nothing(name: str) -> None:
    assert does_nothing({name: "1"}, "gloo") == [f"{name}=1"]
    assert does_nothing({name: "1"}, "") == [], "the backend is not known"
    assert does_nothing({name: "1"}, "cpu:gloo,cuda:nccl") == []


def test_a_slip_of_the_pen_is_asked_about() -> None:
    (note,) = notes({"TORCH_NCCL_HEARTBEAT_TIMEOUT": "900"})
    assert HEARTBEAT in note.text


def test_blocking_wait_starts_no_watchdog() -> None:
    env = {"TORCH_NCCL_BLOCKING_WAIT": "1", HEARTBEAT: "900"}
    assert does_nothing(env) == [f"{HEARTBEAT}=900"]
    assert does_nothing({**env, "TORCH_NCCL_BLOCKING_WAIT": "0"}) == []


def test_a_heartbeat_nobody_monitors() -> None:
    env = {"TORCH_NCCL_ENABLE_MONITORING": "0", HEARTBEAT: "900"}
    assert does_nothing(env) == [f"{HEARTBEAT}=900"]


def test_an_old_name_is_a_hint_only() -> None:
    (note,) = notes({"NCCL_ASYNC_ERROR_HANDLING": "1"})
    assert note.kind is NoteKind.HINT
    assert "TORCH_NCCL_ASYNC_ERROR_HANDLING" in note.text
