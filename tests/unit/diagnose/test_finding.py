"""A culprit is named with its phrase, its kind and the value behind both, and where it is."""

from scenes import job, user
from unstuck.diagnose.finding import blame, culprit, process_evidence, stack_evidence, with_activity
from unstuck.model.doing import Absent, Asleep, NotJoined
from unstuck.model.rank import CodeLine
from unstuck.model.verdict import Role

LIBRARY = CodeLine("/lib/queue.py", 5, "get")


def test_phrase_kind_and_value_go_together() -> None:
    found = blame(2, "node7", Absent(), pid=4711)
    assert (found.doing, found.kind, found.activity) == ("did not arrive", "absent", Absent())
    assert found.pid == 4711
    late = with_activity(found, NotJoined(Asleep()))
    assert (late.kind, late.doing) == (
        "not-joined",
        "has not called init_process_group: it is asleep",
    )
    assert blame(2, "node7", Absent(), lang="zh").doing == "没有到达"


def test_the_users_own_line_is_shown_unless_a_better_one_is_known() -> None:
    state = job(1).change(0, stack=(LIBRARY, user("x = q.get()  ", 12, "load"))).states[0]
    found = culprit(state, Asleep(), 3.0)
    assert (found.file, found.line, found.code) == ("train.py", 12, "x = q.get()")
    raised = culprit(state, Asleep(), 3.0, CodeLine("data.py", 7, "read"))
    assert (raised.file, raised.line, raised.seconds) == ("data.py", 7, 3.0)


def test_a_rank_without_a_stack_has_no_line() -> None:
    state = job(1).change(0, stack=()).states[0]
    assert culprit(state, Asleep(), 3.0).file == ""
    assert stack_evidence(state) == ()


def test_evidence_quotes_the_innermost_frame_and_the_users_own() -> None:
    state = job(1).change(0, stack=(LIBRARY, user("x = q.get()", 12, "load"))).states[0]
    assert [(item.text, item.role) for item in stack_evidence(state)] == [
        ("main thread at queue.py:5 (get)", Role.ROOT),
        ("main thread at train.py:12 (load): x = q.get()", Role.ROOT),
    ]
    assert process_evidence(state).text.startswith("process 1000 in state R, CPU 95%")
