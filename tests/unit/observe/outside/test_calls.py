"""What a stack read from outside says of the operation a rank is in, and what it leaves open."""

from unstuck.model.rank import CodeLine
from unstuck.observe.outside.calls import DEFAULT, UNKNOWN, call_of, in_init, messages, progress
from unstuck.observe.outside.pyspy import ThreadStack

C10D = "/venv/torch/distributed/distributed_c10d.py"
USER = CodeLine("/job/train.py", 20, "train", "dist.all_reduce(loss)", user=True)
FUTEX = "futex_do_wait"


def thread(*frames: CodeLine, **arguments: str) -> ThreadStack:
    return ThreadStack(1, "MainThread", frames, arguments=arguments)


def test_a_collective_of_the_default_group_is_one_of_all_ranks() -> None:
    call = call_of(thread(CodeLine(C10D, 3252, "all_reduce"), USER, group="default"), FUTEX)

    assert call is not None
    assert (call.op, call.group, call.exact) == ("all_reduce", DEFAULT, True)


def test_a_group_of_the_script_cannot_be_told_from_another_one() -> None:
    call = call_of(thread(CodeLine(C10D, 3252, "all_reduce"), USER, group="given"), FUTEX)

    assert call is not None
    assert call.group == UNKNOWN


def test_a_receive_names_its_peer() -> None:
    frames = (CodeLine(C10D, 2500, "recv"), USER)
    call = call_of(thread(*frames, group="default", src="3", tag="7"), FUTEX)

    [message] = messages(call, 12.0)
    assert (message.kind, message.peer, message.tag, message.age) == ("recv", 3, 7, 12.0)


def test_a_receive_from_anybody_has_no_peer() -> None:
    call = call_of(thread(CodeLine(C10D, 2500, "recv"), USER, src="None"), FUTEX)

    assert [one.peer for one in messages(call, 1.0)] == [-1]


def test_backward_that_sleeps_waits_for_others_and_one_that_runs_works() -> None:
    backward = thread(CodeLine("/venv/torch/autograd/graph.py", 877, "_engine_run_backward"), USER)

    waiting = call_of(backward, FUTEX)
    assert waiting is not None
    assert not waiting.exact
    assert call_of(backward, "") is None


def test_a_sleep_in_the_script_and_a_monitored_barrier_are_no_collectives() -> None:
    sleep = CodeLine("/job/train.py", 7, "load", "time.sleep(60)", user=True)

    assert call_of(thread(sleep, USER), "hrtimer_nanosleep") is None
    assert call_of(thread(CodeLine(C10D, 1, "monitored_barrier"), USER), FUTEX) is None
    assert call_of(thread(), FUTEX) is None


def test_init_is_known_by_its_function() -> None:
    assert in_init(thread(CodeLine(C10D, 1700, "init_process_group"), USER))
    assert not in_init(thread(USER))


def test_who_is_in_the_operation_is_ahead_of_who_is_not() -> None:
    call = call_of(thread(CodeLine(C10D, 3252, "all_reduce"), USER, group="default"), FUTEX)
    [inside], [outside] = progress(call, (0, 1), 5.0), progress(None, (0, 1), 5.0)

    assert inside.enqueued > outside.enqueued
    assert inside.enqueued > inside.completed
    assert [one.op for one in inside.pending] == ["all_reduce"]
