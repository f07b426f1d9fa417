"""Scoring: what counts as right, and the table."""

import json
from pathlib import Path

import pytest

from unstuck.model.verdict import Alternative, Cause, Confidence, Verdict
from unstuck.pipelines.logs import explain_text
from unstuck.show.score import main, mark, run, share, table


def verdict(cause: Cause, *others: Cause) -> Verdict:
    alternatives = tuple(Alternative(other, "x") for other in others)
    return Verdict(cause, Confidence.LIKELY, (), (), "", alternatives=alternatives)


@pytest.mark.parametrize(
    ("wanted", "given", "expected"),
    [
        ("oom", verdict(Cause.OUT_OF_MEMORY), "right"),
        ("rank_missing_uneven_work", verdict(Cause.RANK_LEFT_EARLY), "right"),
        ("oom", verdict(Cause.PROCESS_CRASH, Cause.OUT_OF_MEMORY), "listed"),
        ("oom", verdict(Cause.UNKNOWN), "cannot tell"),
        ("oom", None, "cannot tell"),
        ("oom", verdict(Cause.PROCESS_CRASH), "wrong"),
        ("other", verdict(Cause.PROCESS_CRASH), "not scored"),
        ("not_a_distributed_failure", None, "right"),
        ("not_a_distributed_failure", verdict(Cause.UNKNOWN), "false alarm"),
    ],
)
def test_a_verdict_is_marked(wanted: str, given: Verdict | None, expected: str):
    assert mark(wanted, given) == expected


def case(folder: Path, name: str, cause: str, log: str) -> None:
    answer = {"id": name, "log": log, "cause_class": cause, "evidence": "log"}
    answer["signature_family"] = "gloo-collective-mismatch" if name == "sizes" else "other"
    (folder / f"{name}.json").write_text(json.dumps(answer))


def test_only_the_log_is_looked_at_and_misses_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    size = "op.preamble.length <= op.nbytes. 256000 vs 128000"
    case(
        tmp_path,
        "sizes",
        "deadlock_mismatched_collective",
        f"what():  [enforce fail at gloo/transport/tcp/pair.cc:446] {size}",
    )
    case(tmp_path, "quiet", "not_a_distributed_failure", "step 1 loss 2.0")
    case(tmp_path, "missed", "oom", "nothing to see")
    scored = run(tmp_path)
    assert [one.mark for one in scored] == ["cannot tell", "right", "right"]
    assert [one.family for one in scored] == [None, None, True]
    assert share(scored) == pytest.approx(2 / 3)
    assert table(scored)[-1].startswith("cannot tell log      missed: oom <- no verdict")
    assert main([str(tmp_path)]) == 0
    assert "right on thread+log: 66.7 %" in capsys.readouterr().out


def test_nothing_to_score_is_a_usage_error(tmp_path: Path):
    assert main([]) == 2
    assert main([str(tmp_path)]) == 2


REPOSITORY = Path(__file__).parents[3]
GOLDEN = REPOSITORY / "tests" / "golden" / "cases"
REAL = REPOSITORY.parent / "shared" / "cases"
"""Not part of the repository; scored where they lie beside it."""


@pytest.mark.parametrize("folder", [GOLDEN, *([REAL] if REAL.is_dir() else [])], ids=str)
def test_the_reached_score_is_kept(folder: Path):
    scored = run(folder)
    assert len(scored) >= 8
    assert not [one.name for one in scored if one.mark in {"wrong", "false alarm"}]
    assert share(scored) >= 0.95
    assert all(one.family is not False for one in scored if one.kind == "log")


THREADS = REPOSITORY / "tests" / "golden" / "threads"
"""Short excerpts from public threads; the answers were written down before the first run."""
ORDINARY = [
    "INFO:trainer:step {n} loss 2.31 lr 0.0001 grad_norm 1.1",
    "[rank0]: INFO logging metrics to tensorboard",
    "  9%|9         | {n}/10000 [00:11<01:51, 81.9it/s]",
    "node1:77:90 [0] NCCL INFO Channel 00/02 : 0 1",
    "UserWarning: the given buffer is not writable",
]


def test_no_thread_whose_cause_is_established_gets_a_wrong_answer():
    scored = run(THREADS)
    assert len(scored) == 64
    sure = [one for one in scored if one.kind != "inferred"]
    assert [one.name for one in sure if one.mark in {"wrong", "false alarm", "cannot tell"}] == []
    assert share(scored) >= 0.77


def test_ordinary_output_around_a_thread_changes_no_answer():
    """Progress of training is left out: a failure before it was survived."""
    noise = "\n".join(line.format(n=n) for n in range(60) for line in ORDINARY)
    for path in sorted(THREADS.glob("*.json")):
        log = json.loads(path.read_text())["log"]
        alone, among = explain_text(log).verdict, explain_text(f"{noise}\n{log}").verdict
        assert (among.cause if among else None) == (alone.cause if alone else None), path.name
