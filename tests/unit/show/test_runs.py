"""Runs are found by name, by themselves, and from any folder; what cannot be found is explained."""

from collections.abc import Callable
from pathlib import Path

import pytest

from scenes import job
from served_runs import COMMAND, ServedRun
from unstuck.errors import BundleError, UsageError, WorldError
from unstuck.pipelines.job_status import JobState
from unstuck.show import runs

Serve = Callable[..., ServedRun]


def test_the_one_job_that_runs_needs_no_name(serve: Serve):
    served = serve()
    for given in (None, Path("7"), Path("runs/7"), served.path):
        assert runs.find(given).path == served.path
    assert runs.find(None).running


def test_a_job_that_was_started_elsewhere_is_found_by_what_it_keeps_in_memory(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    served = serve()
    memory = tmp_path / "memory"
    memory.mkdir()
    (memory / "unstuck-a").symlink_to(served.live)
    (served.live / "run").symlink_to(served.path)
    (memory / "unstuck-dead").mkdir()
    monkeypatch.chdir(memory)
    assert runs.find(None, need_running=True).path == served.path


def test_of_several_jobs_one_must_be_named(serve: Serve):
    serve("7")
    serve("8")
    with pytest.raises(UsageError, match="runs/7, runs/8"):
        runs.find(None)


def test_what_has_ended_is_found_only_where_it_will_do(serve: Serve):
    serve().end()
    assert not runs.find(None).running
    with pytest.raises(UsageError, match="no job is running"):
        runs.find(None, need_running=True)
    with pytest.raises(UsageError, match="runs/7 is not running"):
        runs.find(Path("7"), need_running=True)


def test_a_wrong_name_is_answered_with_the_names_there_are(serve: Serve, tmp_path: Path):
    with pytest.raises(UsageError, match="no run below runs/"):
        runs.find(None)
    serve()
    with pytest.raises(UsageError) as raised:
        runs.find(Path("nope"))
    assert raised.value.hint == "there are 7"
    with pytest.raises(UsageError, match="is not a run directory"):
        runs.find(tmp_path)


def test_status_while_it_runs_without_watchers_and_after_its_end(serve: Serve):
    served = serve()
    run = runs.find(None)
    found = runs.status(run)
    assert (found.state, found.incidents) == (JobState.STALLED, 1)
    assert found.command == tuple(COMMAND)
    served.end()
    last = runs.status(runs.find(None))
    assert (last.state, last.step, last.incidents) == (JobState.ENDED, 40, 1)
    (served.path / "status.json").write_text("{")
    assert runs.status(runs.find(None)).state is JobState.ENDED


def test_stacks_are_those_of_this_moment(serve: Serve):
    serve(snapshot=job(4).snapshot())
    found = runs.stacks(runs.find(None), [2, 99])
    assert {rank: one["threads"] for rank, one in found.items()} == {2: ["Thread of rank 2"]}


def test_a_dump_has_the_stacks_and_says_where_it_is(serve: Serve):
    served = serve(snapshot=job(4).snapshot())
    path = runs.dump(runs.find(None))
    assert path == served.path / "incident-1"
    assert len(list(path.glob("stacks/*.txt"))) == 4


def test_nobody_answers(serve: Serve):
    served = serve()
    run = runs.find(None)
    served.close()
    with pytest.raises(WorldError, match="does not answer"):
        runs.ask(run, {"ask": "job"})


def test_a_damaged_incident_does_not_hide_the_others(serve: Serve):
    served = serve()
    runs.dump(runs.find(None))
    (served.path / "incident-1" / "verdict.json").write_text("{")
    found = runs.incidents(runs.find(None))
    assert [isinstance(one, BundleError) for one in found] == [True, False]
