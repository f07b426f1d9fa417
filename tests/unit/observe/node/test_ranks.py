"""One rank as its node sees it, with real children that have a page but no torch."""

import json
import os
import select
import signal
import threading
import time
from pathlib import Path

import pytest

from children import Child, recorded, recorder_of, until, write_page
from unstuck.lab.cgroups import Cgroup, why_not
from unstuck.model.rank import CodeLine
from unstuck.observe.node.ranks import RankWatcher
from unstuck.observe.node.source_text import with_source
from unstuck.observe.probe.page import PageWriter


def test_living_rank(rank: Child, watcher: RankWatcher):
    state = watcher.look(time.monotonic())

    assert (state.rank, state.host, state.process.pid) == (3, "node7", rank.pid)
    assert (state.phase, state.attempt, state.world_size) == ("run", "a:1/0", 2)
    assert state.process.state in "RS"
    assert state.process.gone_for is None
    assert (state.unobserved, state.in_flight, state.gil_held) == ("", False, False)
    assert state.process.rss > 1 << 20
    assert 0 <= state.beat_age < 60


def test_stall_grows_until_the_rank_moves(rank: Child, watcher: RankWatcher):
    now = time.monotonic()
    watcher.look(now)
    assert watcher.look(now + 7).stalled_for == 7.0
    rank.do("page.beat(time.monotonic())")
    rank.do("report(frames=[['a.py', 1, 'f', True]])")
    assert watcher.look(now + 8).stalled_for == 8.0
    for move in (
        "page.step(1)",
        "page.section('load', 0.0)",
        "report(phase='init')",
        "report(groups={'0': 4})",
        "report(status={'0': [4, 3]})",
        "report(p2p_issued=1)",
    ):
        rank.do(move)
        assert watcher.look(now + 9).stalled_for == 0.0, move
    assert watcher.look(now + 9).sections == ("load",)


def test_groups_have_their_members_and_what_is_in_flight(rank: Child, watcher: RankWatcher):
    members = {"0": {"ranks": [0, 3], "description": "default_pg", "backend": "gloo"}}
    Path(f"{watcher.base}.groups").write_text(json.dumps(members))
    rank.do("report(groups={'0': 5}, status={'0': [5, 4]})")
    state = watcher.look(time.monotonic())

    assert state.in_flight
    (group,) = state.groups
    assert (group.ranks, group.enqueued, group.completed) == ((0, 3), 5, 4)
    assert (group.description, group.backend) == ("default_pg", "gloo")


def test_pending_receive_is_in_flight(rank: Child, watcher: RankWatcher):
    rank.do("report(p2p=[['recv', '0', 1, 2, 0, 0.5]])")
    state = watcher.look(time.monotonic())

    assert state.in_flight
    assert (state.p2p[0].kind, state.p2p[0].peer, state.p2p[0].ordinal) == ("recv", 1, 2)


def test_frozen_rank_is_told_from_a_sleeping_one(rank: Child, watcher: RankWatcher):
    if reason := why_not("freezer"):
        pytest.skip(reason)
    with Cgroup("freezer") as group:
        group.add(rank.pid)
        first = group.version == 1
        group.write("freezer.state" if first else "cgroup.freeze", "FROZEN" if first else "1")
        until(lambda: watcher.look(time.monotonic() + 5).process.state == "F")
        began = time.monotonic()
        watcher.take_stack()
        assert time.monotonic() - began < 0.5

    until(lambda: watcher.look(time.monotonic()).process.state != "F")


@pytest.mark.parametrize(
    ("end", "code"), [("os._exit(3)", 3), ("os._exit(0)", 0), ("os.kill(os.getpid(), 9)", -9)]
)
def test_end_is_seen_at_once_with_its_code(rank: Child, watcher: RankWatcher, end: str, code: int):
    assert watcher.pidfd is not None
    rank.tell(end)
    assert select.select([watcher.pidfd], [], [], 20)[0]
    now = time.monotonic()
    watcher.note_death(now)
    watcher.note_death(now + 5, 99)
    process = watcher.look(now + 2).process

    assert not watcher.alive
    assert (process.state, process.exit_code, process.gone_for) == ("gone", code, 2.0)
    assert process.oom_kills == 0


def test_code_told_by_the_launcher_is_taken(rank: Child, watcher: RankWatcher):
    rank.tell("os._exit(3)")
    rank.process.wait()
    watcher.note_death(time.monotonic(), 3)
    assert watcher.look(time.monotonic()).process.exit_code == 3


def test_code_of_a_reaped_process_is_known_where_the_kernel_keeps_it(
    rank: Child, watcher: RankWatcher
):
    rank.tell("os._exit(3)")
    rank.process.wait()
    watcher.note_death(time.monotonic())
    keeps = tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 15)
    assert watcher.look(time.monotonic()).process.exit_code == (3 if keeps else None)


def test_crash_tells_its_signal_and_line_even_if_nobody_knows_the_code(
    rank: Child, watcher: RankWatcher
):
    rank.do("faulthandler.enable(file=stacks)")
    rank.tell("os.abort()")
    rank.process.wait()
    watcher.note_death(time.monotonic())
    state = watcher.look(time.monotonic())

    assert (state.process.exit_code, state.crashed_in) == (-signal.SIGABRT, "python")
    assert state.stack[0].file == "<string>"
    assert state.stack[1].file == str(rank.script)


def test_stacks_of_long_ago_are_no_crash(rank: Child, watcher: RankWatcher):
    file = Path(f"{rank.do('base')}.stacks")
    file.write_text("Fatal Python error: Aborted\n\nThread 0x01 (most recent call first):\n")
    os.utime(file, (0, 0))
    rank.tell("os.kill(os.getpid(), 9)")
    rank.process.wait()
    watcher.note_death(time.monotonic())
    state = watcher.look(time.monotonic())
    assert state.process.exit_code in (None, -signal.SIGKILL)
    assert state.crashed_in == ""


def test_process_that_was_gone_before_is_gone(tmp_path: Path):
    write_page(tmp_path, 1, 1 << 22)
    now = time.monotonic()
    watcher = RankWatcher(tmp_path / f"rank-1.{1 << 22}.page", "node7", now)
    process = watcher.look(now + 1).process

    assert (process.state, process.gone_for, process.exit_code) == ("gone", 1.0, None)
    watcher.close(remove=True)
    assert list(tmp_path.iterdir()) == []


def test_busy_main_thread_is_seen(rank: Child, watcher: RankWatcher):
    rank.tell("work(30)")
    until(lambda: watcher.look(time.monotonic()).process.cpu > 0.2)


@pytest.mark.parametrize(
    ("report", "why"),
    [
        ({}, "its page is empty: the probe did not finish starting"),
        ({"phase": "run", "problem": "KeyError: 'x'"}, "KeyError: 'x'"),
        ({"phase": "run", "unobserved": "no recorder", "problem": "later"}, "no recorder"),
    ],
)
def test_why_a_rank_cannot_be_seen_into(tmp_path: Path, report: dict[str, str], why: str):
    path = tmp_path / f"rank-0.{os.getpid()}.page"
    page = PageWriter(str(path))
    if report:
        page.report(report)
    watcher = RankWatcher(path, "node7", time.monotonic())

    assert watcher.look(time.monotonic()).unobserved == why
    watcher.close(remove=True)


def test_failure_comes_with_its_place(rank: Child, watcher: RankWatcher):
    rank.do("report(failure=dict(type='ValueError', message='bad', time=time.monotonic(), "
            f"at=[{str(rank.script)!r}, 2, 'f']))")  # fmt: skip
    failure = watcher.look(time.monotonic()).failure

    assert failure is not None
    assert (failure.type, failure.message) == ("ValueError", "bad")
    assert failure.age < 30
    assert failure.at is not None
    assert failure.at.text.startswith("import faulthandler")


def test_failure_without_a_place(rank: Child, watcher: RankWatcher):
    rank.do("report(failure=dict(type='KeyboardInterrupt', message='', time=0.0, at=None))")
    failure = watcher.look(time.monotonic()).failure
    assert failure is not None
    assert failure.at is None


def test_recorder_that_does_not_answer_leaves_no_evidence(rank: Child, watcher: RankWatcher):
    watcher.read_recorder()
    assert watcher.look(time.monotonic()).recorder_age is None


def test_files_go_only_when_asked(rank: Child, tmp_path: Path):
    page = next(tmp_path.glob("rank-*.page"))
    RankWatcher(page, "node7", time.monotonic()).close(remove=False)
    assert page.exists()
    RankWatcher(page, "node7", time.monotonic()).close(remove=True)
    assert list(tmp_path.glob("rank-*")) == []


@pytest.mark.parametrize("name", ["rank-x.7.page", "rank-1.page"])
def test_file_that_is_no_page_is_refused(tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises((OSError, ValueError)):
        RankWatcher(tmp_path / name, "node7", time.monotonic())


def test_library_that_calls_the_script_back_stays_on_the_stack(tmp_path: Path):
    script, library = (
        str(tmp_path / "train.py"),
        "/lib/python3/site-packages/torch/serialization.py",
    )
    frames = tuple(
        CodeLine(file, 1, function)
        for file, function in (
            (threading.__file__, "wait"),
            (script, "write"),
            (library, "_save"),
            (library, "save"),
            (script, "main"),
            (script, "<module>"),
        )
    )
    kept = [(line.function, line.user) for line in with_source(frames)]
    assert kept == [("wait", False), ("write", True), ("_save", False), ("save", False)]


def test_deep_stack_keeps_what_the_script_called(tmp_path: Path):
    library = "/lib/python3/site-packages/torch/"
    deep = tuple(CodeLine(f"{library}_subclasses/fake_tensor.py", n, "dispatch") for n in range(30))
    called = CodeLine(f"{library}_dynamo/eval_frame.py", 1, "compile_wrapper")
    script = tuple(
        CodeLine(str(tmp_path / "train.py"), 1, function) for function in ("step", "<module>")
    )
    kept = with_source((*deep, called, *script))
    assert [line.function for line in kept] == [*["dispatch"] * 8, "compile_wrapper", "step"]
    assert [line.user for line in kept] == [*[False] * 9, True]
    cut = with_source((*deep, called))
    assert cut == kept[:-1]


FAILED = "failure=dict(type='RuntimeError', message='closed', time=0.0, at=None)"


def test_what_a_rank_was_in_when_another_died_is_kept_for_its_own_end(
    rank: Child, watcher: RankWatcher, tmp_path: Path
):
    page = next(tmp_path.glob("rank-*.page"))
    with recorder_of(page, recorded(3, retired=True), recorded(4, size=6000)):
        watcher.read_last_operations()
    rank.do("report(groups={'0': 4}, status={'0': [4, 3]})")
    assert watcher.look(time.monotonic()).groups[0].pending[0].sizes == ((6000,),)
    rank.do(f"report(phase='exception', status={{'0': [4, 4]}}, {FAILED})")
    (group,) = watcher.look(time.monotonic()).groups
    assert (group.enqueued, group.completed, group.pending[0].sizes) == (4, 3, ((6000,),))


def test_answer_that_a_rank_gave_in_time_is_read_after_its_recorder_is_gone(
    rank: Child, watcher: RankWatcher, tmp_path: Path
):
    page = next(tmp_path.glob("rank-*.page"))
    with recorder_of(page, recorded(3, retired=True), recorded(4, size=6000)):
        watcher.ask_last_operations()
        asked = watcher._asked
        assert asked is not None
        until(lambda: select.select([asked], [], [], 0)[0])
    page.with_suffix(".sock").unlink()
    watcher.read_last_operations()
    rank.do(f"report(phase='exception', {FAILED})")
    assert watcher.look(time.monotonic()).groups[0].pending[0].sizes == ((6000,),)


def test_rank_whose_recorder_cannot_be_asked_has_no_last_operations(watcher: RankWatcher):
    watcher.ask_last_operations()
    watcher.read_last_operations()
    assert watcher.look(time.monotonic()).groups[0].pending == ()


def test_last_words_of_a_rank_that_went_on_are_forgotten(
    rank: Child, watcher: RankWatcher, tmp_path: Path
):
    with recorder_of(next(tmp_path.glob("rank-*.page")), recorded(4)):
        watcher.read_last_operations()
    for enqueued in (4, 5):
        rank.do(f"report(groups={{'0': {enqueued}}}, status={{'0': [{enqueued}, {enqueued}]}})")
        assert watcher.look(time.monotonic()).groups[0].pending == ()


def test_a_rank_that_fails_says_itself_what_it_was_in(
    rank: Child, watcher: RankWatcher, tmp_path: Path
):
    last = next(tmp_path.glob("rank-*.page")).with_suffix(".last")
    last.write_text(json.dumps([recorded(3, retired=True), recorded(4, size=6000)]))
    assert watcher.look(time.monotonic()).groups[0].enqueued == 3
    rank.do(f"report(phase='exception', {FAILED})")
    assert watcher.look(time.monotonic()).groups[0].pending[0].sizes == ((6000,),)


def test_last_words_that_cannot_be_understood_are_left_out(
    rank: Child, watcher: RankWatcher, tmp_path: Path
):
    next(tmp_path.glob("rank-*.page")).with_suffix(".last").write_text('[{"is_p2p": false}]')
    rank.do(f"report(phase='exception', {FAILED})")
    state = watcher.look(time.monotonic())
    assert (state.unobserved, state.groups[0].enqueued) == ("", 3)
