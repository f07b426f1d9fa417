"""What `unstuck attach` prints fits 80 columns and carries no control characters."""

import io

import pytest

from unstuck.model.rank import CodeLine, Process, ProcessState, RankState
from unstuck.pipelines.outside import Attached
from unstuck.show.attached import as_json, render

LONG = "the file system that holds " * 10
ODD = CodeLine("/job/\x1b[31mtrain.py", 7, "load", "time.sleep(600)\x1b[0m", user=True)


def found(*, moves: bool = False) -> Attached:
    ranks = (
        RankState(0, "a", Process(1, ProcessState.SLEEPING), stack=(ODD,), stalled_for=7.0),
        RankState(1, "a", Process(2, ProcessState.STOPPED)),
        RankState(2, "a", Process(0, ProcessState.GONE)),
        RankState(3, "", Process(0), unobserved="it is on a machine that was not looked at"),
    )
    return Attached("a:1", None, moves, ranks, (LONG,), 2.0)


def test_without_a_verdict_it_says_where_every_rank_is() -> None:
    shown = render(io.StringIO(), found(), stacks=True)

    assert shown.startswith("job a:1: 2 of 4 ranks, looked at for 2.0 s\nno verdict:")
    assert "rank 0: at [31mtrain.py:7 in load: time.sleep(600)[0m, 7 s" in shown
    assert "rank 1: stopped by a signal" in shown
    assert "rank 2: has no process here" in shown
    assert "[1: 0]  load" in shown
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_a_job_that_moves_is_said_to() -> None:
    assert "it makes progress" in render(io.StringIO(), found(moves=True))


@pytest.mark.parametrize("stacks", [True, False])
def test_json_is_the_verdict_file_and_what_was_looked_at(stacks: bool) -> None:
    shown = as_json(found(), stacks=stacks)

    assert (shown["schema"], shown["verdict"]) == ("unstuck.verdict/1", None)
    assert [one["rank"] for one in shown["attached"]["ranks"]] == [0, 1, 2, 3]
    assert ("stacks" in shown["attached"]) is stacks
