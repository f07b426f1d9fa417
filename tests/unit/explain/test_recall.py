"""A verdict on a watched job is joined with the records that belong to it, and their advice."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from scenes import Scene, job, one_sleeps
from unstuck.diagnose.diagnose import diagnose
from unstuck.explain import recall
from unstuck.model.doing import Asleep, Raised
from unstuck.model.snapshot import Snapshot
from unstuck.model.verdict import Cause, Confidence, Culprit, Verdict

SHM = (
    "DataLoader worker (pid 4711) is killed by signal: Bus error. It is possible that "
    "dataloader's workers are out of shared memory. Please try to raise your shared memory limit."
)


def found(snapshot: Snapshot) -> Verdict:
    verdict = diagnose(snapshot).verdict
    assert verdict is not None
    return recall.explained(verdict, snapshot)


def failed(kind: str, message: str) -> Scene:
    scene = job(4)
    for rank in (0, 1, 3):
        scene.enter(rank)
    return scene.fail(2, kind, message, 1.0)


def test_exception_of_the_culprit_leads_to_its_own_record_first():
    verdict = found(failed("RuntimeError", SHM).snapshot())

    assert verdict.records[0] == "dataloader/bus-error-shm"
    assert "gloo/closed-by-peer" in verdict.records
    assert len(verdict.records) <= recall.MOST


def test_any_exception_leads_to_the_record_of_exceptions():
    verdict = found(failed("ValueError", "bad batch").snapshot())

    assert verdict.records[0] == "pytorch/rank-exception"


def test_last_words_of_a_crashed_rank_say_why_it_crashed():
    scene = job(4).end(2, -6, 1.0)
    scene.change(2, printed=("CUDA error: uncorrectable ECC error encountered",))
    verdict = found(scene.snapshot())

    assert verdict.cause is Cause.PROCESS_CRASH
    assert verdict.records[0] == "cuda/uncorrectable-error"


def test_an_old_warning_of_a_rank_that_sleeps_is_not_its_failure():
    scene = one_sleeps()
    scene.change(2, printed=("CUDA error: uncorrectable ECC error encountered",))

    assert "cuda/uncorrectable-error" not in found(scene.snapshot()).records


def test_stall_leads_to_what_the_others_will_print():
    verdict = found(one_sleeps().snapshot())

    assert "gloo/recv-timeout" in verdict.records


@pytest.mark.parametrize(
    ("code", "record"),
    [
        ("trainer.save_checkpoint(path)", "pytorch/rank0-checkpoint-too-long"),
        ("evaluate(model)", "pytorch/rank0-only-evaluation"),
        ("data.map(tokenize)", "pytorch/rank0-preparation-longer-than-timeout"),
    ],
)
def test_line_of_the_culprit_chooses_among_the_records_of_a_cause(code: str, record: str):
    snapshot = one_sleeps().snapshot()
    culprit = Culprit(2, "host0", "is busy", code=code, activity=Asleep())
    verdict = Verdict(Cause.BUSY_ELSEWHERE, Confidence.LIKELY, (culprit,), (0, 1, 3), "")

    assert recall.explained(verdict, snapshot).records[0] == record


@pytest.mark.parametrize("cause", sorted(set(Cause) - {Cause.SOFTWARE_BUG}))
@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_no_cause_of_a_watched_job_is_without_a_record(cause: Cause, backend: str):
    scene = one_sleeps()
    for rank, state in scene.states.items():
        scene.change(rank, groups=tuple(replace(g, backend=backend) for g in state.groups))
    verdict = Verdict(cause, Confidence.LIKELY, (Culprit(2, "host0", "is odd"),), (0,), "")

    assert recall.explained(verdict, scene.snapshot()).records


def test_record_adds_advice_only_where_a_ranks_own_words_led_to_it():
    snapshot = failed("RuntimeError", "NCCL error: unhandled system error").snapshot()
    plain = found(one_sleeps().snapshot())
    verdict = diagnose(one_sleeps().snapshot()).verdict
    assert verdict is not None
    assert plain.do == recall.advise(verdict).do
    assert found(snapshot).do


def test_advice_of_situation_and_record_never_contradicts_itself():
    culprit = Culprit(2, "host0", "raised", activity=Raised(error="OutOfMemoryError: CUDA out of"))
    verdict = Verdict(Cause.OUT_OF_MEMORY, Confidence.CERTAIN, (culprit,), (0,), "")
    scene = failed("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB")
    joined = recall.explained(verdict, scene.snapshot())

    assert joined.records[0] == "cuda/out-of-memory"
    assert "pytorch/cpu-out-of-memory" not in joined.records
    assert sum("memory" in step and ("less" in step or "Reduce" in step) for step in joined.do) == 1


def test_broken_records_of_a_user_cost_the_records_not_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "my").mkdir()
    (tmp_path / "my" / "broken.toml").write_text("id = 1")
    monkeypatch.setenv("UNSTUCK_KB", str(tmp_path))
    monkeypatch.setattr(recall, "knowledge", recall.knowledge.__wrapped__)
    verdict = found(one_sleeps().snapshot())

    assert verdict.do
    assert verdict.records == ()
    assert "broken.toml" in capsys.readouterr().err
    recall.prepare()
