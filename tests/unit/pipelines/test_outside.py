"""From looks at ranks that nobody prepared to a verdict, and to what could not be seen."""

from msgspec.structs import replace

from clocks import FakeClock
from unstuck.model.rank import CodeLine, Phase, Process, ProcessState, RankState
from unstuck.model.verdict import Cause, Confidence
from unstuck.observe.outside import calls
from unstuck.observe.outside.calls import DEFAULT, UNKNOWN, Call
from unstuck.pipelines.outside import Seen, judge

C10D = CodeLine("/venv/torch/distributed/distributed_c10d.py", 3252, "all_reduce")
WORLD = (0, 1, 2)
REDUCE = Call("all_reduce")


def state(rank: int, call: Call | None, seconds: float, line: int = 20) -> RankState:
    own = CodeLine("/job/train.py", line, "train", "dist.all_reduce(x)" if call else "x = f(x)",
                   user=True)  # fmt: skip
    return RankState(
        rank,
        "a",
        Process(100 + rank, ProcessState.SLEEPING, waits_in="futex_do_wait", cpu=0.0),
        world_size=len(WORLD),
        phase=Phase.RUN,
        stalled_for=seconds,
        in_flight=call is not None,
        groups=calls.progress(call, WORLD, seconds),
        p2p=calls.messages(call, seconds),
        stack=(replace(C10D, function=call.op), own) if call else (own,),
        places=(f"/job/train.py:{line}",),
        stack_age=0.0,
    )


def seen(
    found: dict[int, Call | None], seconds: float, moved: tuple[int, ...] = (), **lines: int
) -> Seen:
    states = tuple(state(r, call, seconds, lines.get(f"r{r}", 20)) for r, call in found.items())
    return Seen("a", "a:1", states, found, moved)


def attach(part: Seen, patience: float = 0.0):
    clock = FakeClock()

    def look() -> list[Seen]:
        clock.sleep(1.0)
        return [part]

    return judge(look, patience=patience, clock=clock)


def test_the_rank_that_others_wait_for_is_named_at_the_first_look() -> None:
    found = attach(seen({0: REDUCE, 1: REDUCE, 2: None}, 600.0))

    assert found.verdict is not None
    assert [one.rank for one in found.verdict.culprits] == [2]
    assert found.verdict.victims == (0, 1)
    assert found.verdict.stuck is not None
    assert found.verdict.stuck.op == "all_reduce"
    assert "#" not in found.verdict.summary
    assert found.seconds < 2.0


def test_ranks_that_all_move_are_no_problem_and_need_no_long_look() -> None:
    found = attach(seen({0: REDUCE, 1: None, 2: REDUCE}, 0.1, moved=WORLD))

    assert found.verdict is None
    assert found.moves
    assert found.seconds < 2.0


def test_a_short_wait_is_watched_for_a_while_and_not_called_a_stall() -> None:
    found = attach(seen({0: REDUCE, 1: REDUCE, 2: None}, 5.0))

    assert found.verdict is None
    assert not found.moves
    assert 20.0 < found.seconds < 30.0


def test_patience_decides_how_long_a_wait_may_last() -> None:
    part = seen({0: REDUCE, 1: REDUCE, 2: None}, 8.0)

    assert attach(part, patience=4.0).verdict is not None
    assert attach(part, patience=60.0).verdict is None


def test_different_collectives_of_the_group_of_all_are_a_mismatch_that_is_only_likely() -> None:
    gather = Call("all_gather")
    found = attach(seen({0: REDUCE, 1: REDUCE, 2: gather}, 600.0, r2=30))

    assert found.verdict is not None
    assert found.verdict.cause is Cause.COLLECTIVE_MISMATCH
    assert [one.rank for one in found.verdict.culprits] == [2]
    assert found.verdict.confidence is not Confidence.CERTAIN
    assert "no flight recorder was read" in found.verdict.because


def test_calls_in_groups_of_the_script_are_not_compared_and_nobody_is_accused() -> None:
    first, second = Call("all_reduce", UNKNOWN), Call("all_gather", UNKNOWN)
    found = attach(seen({0: first, 1: first, 2: second}, 600.0, r2=30))

    assert found.verdict is not None
    assert found.verdict.cause is Cause.UNKNOWN
    assert not found.verdict.culprits
    assert "stacks alone do not tell" in found.verdict.summary


def test_all_ranks_in_the_same_call_accuse_nobody() -> None:
    found = attach(seen(dict.fromkeys(WORLD, REDUCE), 600.0))

    assert found.verdict is not None
    assert found.verdict.cause is Cause.TRANSPORT_STALL
    assert not found.verdict.culprits


def test_a_receive_from_a_rank_that_computes_names_that_rank() -> None:
    recv = Call("recv", DEFAULT, peer=2, message=True)
    found = attach(seen({0: None, 1: recv, 2: None}, 600.0))

    assert found.verdict is not None
    assert [one.rank for one in found.verdict.culprits] == [2]


def test_ranks_on_another_machine_are_said_to_be_there_and_not_accused() -> None:
    found = attach(seen({0: REDUCE, 1: REDUCE}, 600.0))

    assert found.verdict is not None
    assert found.verdict.cause is Cause.UNKNOWN
    assert not found.verdict.culprits
    assert "rank 2: on another machine; name it with -H HOST" in found.unseen


def test_two_machines_together_are_the_whole_job() -> None:
    here, there = seen({0: REDUCE, 1: REDUCE}, 600.0), seen({2: None}, 1.0)
    clock = FakeClock()
    found = judge(lambda: [here, there] if not clock.sleep(1.0) else [], clock=clock)

    assert found.verdict is not None
    assert [one.rank for one in found.verdict.culprits] == [2]
    assert "rank 2: on another machine; name it with -H HOST" not in found.unseen


def test_a_stopped_rank_is_certain() -> None:
    part = seen({0: REDUCE, 1: REDUCE, 2: None}, 600.0)
    stopped = replace(part.ranks[2], process=Process(102, ProcessState.STOPPED))
    found = attach(replace(part, ranks=(*part.ranks[:2], stopped)))

    assert found.verdict is not None
    assert found.verdict.cause is Cause.PROCESS_STOPPED
    assert found.verdict.confidence is Confidence.CERTAIN
