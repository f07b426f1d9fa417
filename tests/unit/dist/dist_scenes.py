"""What the ranks of the tests do: every rank of a world plays the same function."""

import functools
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import torch
import torch.distributed

from ranks import Rank
from unstuck import dist
from unstuck.dist.missing import rollcall
from unstuck.dist.timed import collectives

Started = Callable[..., Any]
COMMON = [
    "all_reduce",
    "all_reduce_coalesced",
    "reduce",
    "broadcast",
    "all_gather",
    "all_gather_single",
    "gather",
    "scatter",
    "reduce_scatter",
    "reduce_scatter_single",
    "all_to_all_single",
    "all_to_all",
    "barrier",
    "all_gather_object",
    "gather_object",
    "broadcast_object_list",
    "scatter_object_list",
]


def start(op: str, me: Rank, group: Any = None, **how: Any) -> tuple[Any, Callable[[], Any]]:
    """Issue an operation; return its return value and a function that reads its result."""
    call, result = prepare(op, me, group)
    return call(**how), result


def prepare(op: str, me: Rank, group: Any = None) -> tuple[Started, Callable[[], Any]]:
    """Return a function that issues an operation, and one that reads its result."""
    n, r = me.size, me.rank
    own = torch.full((2,), float(r + 1))
    out = torch.zeros(2 * n)
    lists = [torch.zeros(2) for _ in range(n)]
    rows = torch.arange(2.0 * n) + 100 * r
    things: list[Any] = [None] * n
    given: dict[str, tuple[tuple[Any, ...], Callable[[], Any]]] = {
        "all_reduce": ((own,), own.tolist),
        "all_reduce_coalesced": ((list(own.split(1)),), own.tolist),
        "reduce": ((own, 0), lambda: own.tolist() if r == 0 else None),
        "broadcast": ((own, 0), own.tolist),
        "all_gather": ((lists, own), lambda: [each.tolist() for each in lists]),
        "all_gather_single": ((out, own), out.tolist),
        "gather": (
            (own, lists if r == 0 else None, 0),
            lambda: [each.tolist() for each in lists],
        ),
        "scatter": ((own, list(rows.split(2)) if r == 0 else None, 0), own.tolist),
        "reduce_scatter": ((own, list(rows.split(2))), own.tolist),
        "reduce_scatter_single": ((own, rows), own.tolist),
        "all_to_all_single": ((out, rows), out.tolist),
        "all_to_all": ((lists, list(rows.split(2))), lambda: [each.tolist() for each in lists]),
        "barrier": ((), lambda: None),
        "all_gather_object": ((things, {"rank": r}), lambda: things),
        "gather_object": (({"rank": r}, things if r == 0 else None, 0), lambda: things),
        "broadcast_object_list": (
            (things if r else [f"thing {i}" for i in range(n)], 0),
            lambda: things if r else None,
        ),
        "scatter_object_list": (
            (things, [f"part {i}" for i in range(n)] if r == 0 else None, 0),
            lambda: things[:1],
        ),
    }
    args, result = given[op]
    return functools.partial(getattr(dist, op), *args, group=group), result


def results(me: Rank, ops: list[str], how: dict[str, Any]) -> dict[str, Any]:
    """Run operations one after another."""
    found: dict[str, Any] = {}
    for op in ops:
        work, result = start(op, me, **how)
        if how.get("async_op"):
            work.wait()
        found[op] = result()
    return found


def late_in_each(
    me: Rank, ops: list[str], timeout: float, *, asynchronous: bool, much: float
) -> dict[str, Any]:
    """Let the last rank arrive late at each operation; the others wait again after the timeout."""
    collectives._MUCH = much
    late = me.size - 1
    found: dict[str, Any] = {}
    for op in ops:
        if me.rank == late:
            me.wait_for(op, me.others())
            _, result = start(op, me)
        else:
            call, result = prepare(op, me)
            began = time.monotonic()
            work: Any = None
            try:
                if asynchronous:
                    call(timeout=timeout, async_op=True).wait()
                else:
                    call(timeout=timeout)
                found[op] = None
            except dist.CollectiveTimeout as error:
                found[op] = (time.monotonic() - began, error.missing, error.op, str(error))
                work = error.work
            me.reach(op)
            # Ranks that only send are done before the late one arrives.
            if work is not None:
                work.wait(timeout=20)
        found[op] = (found.get(op), result())
        dist.barrier()
    return found


def late_to_objects(me: Rank) -> Any:
    """Arrive late at an object collective, which has no handle but that of the error."""
    if me.rank == me.size - 1:
        me.wait_for("all_gather_object", me.others())
        _, result = start("all_gather_object", me)
        return result(), _sum()
    things: list[Any] = [None] * me.size
    error = _timeout(lambda: dist.all_gather_object(things, {"rank": me.rank}, timeout=0.2))
    untouched = list(things)
    busy = _refusal(lambda: dist.all_reduce(torch.ones(1)))
    me.reach("all_gather_object")
    error.work.wait(timeout=20)
    return untouched, busy, things, error.missing, _sum()


def tensor_of_an_unfinished_call(me: Rank) -> dict[str, Any]:
    """Use the tensor of a timed-out reduction in every way that must be noticed."""
    if me.rank == 1:
        me.wait_for("tried", [0])
        dist.all_reduce(torch.full((4,), 10.0))
        me.wait_for("tried again", [0])
        dist.all_reduce(torch.full((4,), 10.0))
        me.wait_for("tried a third time", [0])
        dist.all_reduce(torch.full((2,), 10.0))
        return {}
    found: dict[str, Any] = {}
    tensor = torch.ones(4)
    first = _timeout(lambda: dist.all_reduce(tensor, timeout=0.1))
    found["same"] = _refusal(lambda: dist.all_reduce(tensor, timeout=0.1))
    found["view, no timeout"] = _refusal(lambda: dist.broadcast(tensor[2:], 0))
    me.reach("tried")
    first.work.wait(timeout=20)
    found["result"] = tensor.tolist()

    second = _timeout(lambda: dist.all_reduce(tensor, timeout=0.1))
    tensor.zero_()
    me.reach("tried again")
    work = second.work
    found["written meanwhile"] = _refusal(lambda: work.wait(timeout=20))

    spoiled = torch.ones(2)
    third = _timeout(lambda: dist.all_reduce(spoiled, timeout=0.1))
    me.reach("tried a third time")
    _until(third.work.is_completed)
    found["completed unseen"] = _refusal(lambda: dist.all_reduce(spoiled, timeout=0.1))
    return found


def copies(me: Rank) -> dict[str, Any]:
    """Time out on private copies, then let the operation complete."""
    if me.rank == 1:
        me.wait_for("timed out", [0])
        dist.all_reduce(torch.full((4,), 10.0))
        dist.all_reduce(torch.full((4,), 100.0))
        dist.recv(torch.zeros(2), 0)
        received = torch.zeros(2)
        dist.recv(received, 0)
        return {"received": received.tolist()}
    tensor = torch.ones(4)
    error = _timeout(lambda: dist.all_reduce(tensor, timeout=0.1, copy=True))
    found: dict[str, Any] = {"after the timeout": tensor.tolist(), "says": str(error)}
    me.reach("timed out")
    _until(error.work.is_completed)
    found["after it completed"] = tensor.tolist()
    dist.all_reduce(tensor, timeout=20, copy=True)
    found["next one"] = tensor.tolist()
    error.work.wait()
    found["first one, taken late"] = tensor.tolist()
    dist.send(torch.ones(2), 1, timeout=20)
    outgoing = torch.full((2,), 7.0)
    work = dist.isend(outgoing, 1, timeout=20, copy=True)
    outgoing.zero_()
    work.wait()
    found["sender's tensor"] = outgoing.tolist()
    return found


def many_in_flight(me: Rank, count: int) -> Any:
    """Let more operations time out than gloo has threads; then all complete in order."""
    tensors = [torch.full((3,), float(i + me.rank)) for i in range(count)]
    if me.rank == me.size - 1:
        me.wait_for("all timed out", me.others())
        for tensor in tensors:
            dist.all_reduce(tensor)
        return [tensor[0].item() for tensor in tensors]
    errors = [
        _timeout(lambda tensor=tensor: dist.all_reduce(tensor, timeout=0.05)) for tensor in tensors
    ]
    me.reach("all timed out")
    for error in errors:
        error.work.wait(timeout=20)
    return [tensor[0].item() for tensor in tensors]


def messages(me: Rank) -> Any:
    """Time out in sends and receives; the messages still arrive later."""
    if me.rank == 1:
        me.wait_for("timed out", [0])
        first, second = torch.zeros(2), torch.zeros(2)
        dist.send(torch.full((2,), 5.0), 0)
        dist.recv(first, 0)
        source = dist.recv(second, timeout=20)
        ring = _ring(me)
        return first.tolist(), second.tolist(), source, ring
    tensor = torch.zeros(2)
    received = _timeout(lambda: dist.recv(tensor, 1, timeout=0.1))
    sent = _timeout(lambda: dist.send(torch.full((2,), 6.0), 1, timeout=0.1))
    me.reach("timed out")
    for error in (received, sent):
        error.work.wait(timeout=20)
    dist.send(torch.full((2,), 8.0), 1, timeout=20)
    return tensor.tolist(), received.missing, str(received), str(sent), _ring(me)


def _ring(me: Rank) -> list[float]:
    peer = 1 - me.rank
    tensor = torch.zeros(2)
    ops = [
        dist.P2POp(dist.isend, torch.full((2,), float(me.rank)), peer),
        dist.P2POp(dist.irecv, tensor, peer),
    ]
    for work in dist.batch_isend_irecv(ops, timeout=20):
        work.wait()
    return tensor.tolist()


def absent(me: Rank, how: str) -> Any:
    """Time out because the last rank is busy or stopped; return what was found out."""
    last = me.size - 1
    _meet(me)
    if me.rank == last:
        me.store.set("pid", str(os.getpid()))
        load_batch(me) if how == "busy" else os.kill(os.getpid(), signal.SIGSTOP)
        dist.barrier()
        return None
    if how == "stopped":
        _until(lambda: _state(int(me.store.get("pid"))) == "T")
    error = _timeout(lambda: dist.barrier(timeout=0.3))
    me.reach("seen")
    if how == "stopped" and me.rank == 0:
        me.wait_for("seen", range(1, last))
        os.kill(int(me.store.get("pid")), signal.SIGCONT)
    error.work.wait(timeout=20)
    peer = error.peers[last]
    return error.missing, error.silent, peer.state, peer.doing, str(error)


def _meet(me: Rank) -> None:
    """Let all ranks learn each other's address, as in the first second of a job."""
    dist.barrier(timeout=20)
    roll = rollcall.current()
    assert roll is not None
    roll.prepare(me.others())
    _until(lambda: all(roll.record(rank) for rank in me.others()))
    dist.barrier(timeout=20)


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def load_batch(me: Rank) -> None:
    me.wait_for("seen", me.others())  # where the late rank is found to be


def dies(me: Rank) -> Any:
    """Lose a rank in the middle of a timed operation, then continue without it."""
    last = me.size - 1
    _meet(me)
    if me.rank == last:
        me.store.set("lonely", "yes")
        os.kill(os.getpid(), signal.SIGKILL)
    notes, kind = "", ""
    try:
        dist.all_reduce(torch.ones(1), timeout=20)
    except RuntimeError as error:
        kind, notes = type(error).__name__, "".join(getattr(error, "__notes__", []))
    dist.rebuild(survivors=range(last), timeout=20)
    tensor = torch.ones(1)
    dist.all_reduce(tensor, timeout=20)
    return kind, notes, dist.get_rank(), dist.get_world_size(), tensor.item()


def other_operation(me: Rank) -> str:
    """Let ranks be in different operations with the same number."""
    _meet(me)
    op = (lambda: dist.barrier(timeout=0.4)) if me.rank else None
    if op is None:
        outputs = [torch.zeros(1) for _ in range(me.size)]
        op = lambda: dist.all_gather(outputs, torch.ones(1), timeout=0.4)  # noqa: E731
    text = str(_timeout(op))
    me.reach("timed out")
    me.wait_for("timed out", me.others())
    return text


def given_up_by_another(me: Rank) -> Any:
    """Give up a group while another rank still has time: that one gets the same error."""
    dist.barrier(timeout=20)
    if me.rank == 2:
        me.wait_for("given up", [0, 1])
        return None
    if me.rank == 1:
        error = _timeout(lambda: dist.all_reduce(torch.ones(1), timeout=30))
        me.reach("given up")
        return error.overdue.given_up_by, error.missing, error.elapsed < 10
    tensor = torch.ones(1)
    error = _timeout(lambda: dist.all_reduce(tensor, timeout=0.5))
    error.give_up()
    spoiled = _refusal(lambda: dist.broadcast(tensor, 0, group=dist.group.WORLD))
    me.reach("given up")
    return str(error.missing), spoiled


def groups_rebuilt(me: Rank) -> Any:
    """Rebuild a sub-group, the world from all ranks, and the world without the last one."""
    last = me.size - 1
    found: dict[str, Any] = {"world": _sum()}
    group = dist.new_group([0, 1])
    if me.rank < 2:
        found["hung"] = _hang_and_rebuild(me, group)
    dist.barrier(timeout=20)
    dist.rebuild(timeout=20)
    found["all"] = _sum()
    if me.rank == last:
        me.wait_for("rebuilt", range(last))
        try:
            dist.rebuild(timeout=20)
        except dist.RebuildError as error:
            found["left out"] = str(error)
        return found
    dist.rebuild(survivors=range(last), timeout=20)
    found["some"] = _sum(), dist.get_rank(), dist.get_world_size()
    me.reach("rebuilt")
    return found


def _hang_and_rebuild(me: Rank, group: Any) -> Any:
    if me.rank == 0:
        error = _timeout(lambda: dist.all_reduce(torch.ones(1), group=group, timeout=0.1))
        error.give_up()
        refused = _refusal(lambda: dist.all_reduce(torch.ones(1), group=group))
        me.reach("given up")
    else:
        refused = ""
        me.wait_for("given up", [0])
    began = time.monotonic()
    group = dist.rebuild(group, timeout=20)
    took = time.monotonic() - began
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=group, timeout=20)
    return refused, tensor.item(), took, dist.get_process_group_ranks(group)


def _sum() -> float:
    tensor = torch.ones(1)
    dist.all_reduce(tensor, timeout=20)
    return tensor.item()


def rebuild_differs(me: Rank) -> Any:
    """Ask for different survivors, then for the same."""
    refused = ""
    if me.rank < 2:
        refused = _refusal(lambda: dist.rebuild(survivors=[None, [0, 1]][me.rank], timeout=20))
        me.reach("refused")
    me.wait_for("refused", [0, 1])
    dist.rebuild(timeout=20)
    return refused, _sum()


def rebuild_lacks_one(me: Rank) -> Any:
    """Wait in vain for the last rank, then continue with those that are present."""
    if me.rank == 2:
        me.wait_for("went on", [0, 1])
        return None
    failed = _refusal(lambda: dist.rebuild(timeout=0.5))
    dist.rebuild(survivors="present", timeout=20, settle=1.5)
    total = _sum()
    me.reach("went on")
    return failed, total, dist.get_world_size()


def wrong_use(me: Rank) -> dict[str, str]:
    """Misuse the package in every way that can be noticed."""
    tensor = torch.ones(1)
    dead = dist.new_group([0])
    dist.destroy_process_group(dead)
    tries: dict[str, Callable[[], Any]] = {
        "negative": lambda: dist.all_reduce(tensor, timeout=-1),
        "zero": lambda: dist.barrier(timeout=0),
        "nan": lambda: dist.all_reduce(tensor, timeout=float("nan")),
        "text": lambda: dist.send(tensor, 0, timeout="5"),
        "bool": lambda: dist.all_gather_object([None], 1, timeout=True),
        "group": lambda: dist.all_reduce(tensor, group="world", timeout=1),
        "destroyed": lambda: dist.all_reduce(tensor, group=dead, timeout=1),
        "survivors": lambda: dist.rebuild(survivors=cast("Any", "some")),
        "not in it": lambda: dist.rebuild(survivors=[5]),
        "deadline": lambda: dist.deadline(seconds=-3),
    }
    return {name: _refusal(attempt) for name, attempt in tries.items()}


def alone(me: Rank) -> Any:
    """Use everything in a world of one."""
    found = results(me, COMMON, {"timeout": timedelta(seconds=20)})
    with dist.deadline(20):
        found["deadline"] = _sum()
    dist.rebuild(timeout=20)
    return {**found, "rebuilt": _sum()}


def deadlines(me: Rank) -> Any:
    """Let a deadline end in the middle of several operations."""
    tensor = torch.ones(1)
    if me.rank == 1:
        dist.all_reduce(tensor)
        me.wait_for("timed out", [0])
        dist.all_reduce(tensor)
        return None
    began = time.monotonic()
    with dist.deadline(60), dist.deadline(0.5, copy=True):
        dist.all_reduce(tensor)
        error = _timeout(lambda: dist.all_reduce(tensor))
        took = time.monotonic() - began
        never = _timeout(lambda: dist.all_reduce(tensor))
    me.reach("timed out")
    error.work.wait(timeout=20)
    return took, error.timeout, not never.started, str(never), tensor.item()


def race(me: Rank, rounds: int) -> Any:
    """Let the other rank arrive just when time is up, many times: the sum is always right."""
    timeouts = 0
    for number in range(rounds):
        tensor = torch.full((2,), float(number + me.rank))
        if me.rank == 1:
            time.sleep(0.01 + 0.0002 * (number % 20))
            dist.all_reduce(tensor)
            continue
        try:
            dist.all_reduce(tensor, timeout=0.012)
        except dist.CollectiveTimeout as error:
            timeouts += 1
            error.work.wait(timeout=20)
        assert tensor.tolist() == [2.0 * number + 1] * 2, (number, tensor)
    return timeouts


def threads(me: Rank) -> Any:
    """Wait in several groups from several threads at once, with overlapping members."""
    _meet(me)
    groups = [dist.new_group([0, 1]), dist.new_group([0, 2]), dist.new_group([0, 1, 2])]
    members = [[0, 1], [0, 2], [0, 1, 2]]
    found: dict[int, Any] = {}

    def wait(number: int) -> None:
        tensor = torch.ones(1)
        error = _timeout(lambda: dist.all_reduce(tensor, group=groups[number], timeout=0.4))
        me.reach(f"timed out in {number}")
        error.work.wait(timeout=20)
        found[number] = error.missing, tensor.item()

    if me.rank == 0:
        waiting = [threading.Thread(target=wait, args=(number,)) for number in range(3)]
        for thread in waiting:
            thread.start()
        for thread in waiting:
            thread.join()
        return found
    for number, ranks in enumerate(members):
        if me.rank in ranks:
            me.wait_for(f"timed out in {number}", [0])
            dist.all_reduce(torch.ones(1), group=groups[number])
    return None


def same_operation_elsewhere(me: Rank) -> Any:
    """Wait for a rank that is in the same operation of bare torch, but on another group."""
    other = dist.new_group([1, 2])
    _meet(me)
    if me.rank == 0:
        error = _timeout(lambda: dist.all_reduce(torch.ones(1), timeout=0.5))
        me.reach("timed out")
        error.work.wait(timeout=20)
        return error.missing
    if me.rank == 2:
        me.wait_for("timed out", [0])
    torch.distributed.all_reduce(torch.ones(1), group=other)
    torch.distributed.all_reduce(torch.ones(1))
    return None


def _timeout(attempt: Callable[[], Any]) -> dist.CollectiveTimeout:
    try:
        attempt()
    except dist.CollectiveTimeout as error:
        return error
    raise AssertionError("there was no timeout")


def _refusal(attempt: Callable[[], Any]) -> str:
    try:
        attempt()
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"
    return "accepted"


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.002)


def sockets_of_groups(me: Rank) -> Any:
    """Give up a sub-group; the sockets of the world and of the program stay open."""
    from unstuck.dist.base import sockets

    listener = socket.create_server(("127.0.0.1", 0))
    dialled = socket.create_connection(listener.getsockname())
    accepted, _ = listener.accept()
    group = dist.new_group([0, 1])
    counts = {name: len(found) for name, found in sockets._of_group.items()}
    if me.rank < 2:
        dist.barrier(group)
        dist.give_up(group)
    dialled.sendall(b"alive")
    return counts, accepted.recv(5) == b"alive", _sum()


def unknown_sockets(me: Rank) -> str:
    """Try to give up a group whose creation was not observed."""
    from unstuck.dist.base import sockets

    sockets.forget("0")
    return _refusal(dist.give_up)


def ways_of_waiting(me: Rank) -> Any:
    """Wait for a hanging all_reduce in each way until time is up, then until it ends."""
    from unstuck.dist.base.waiting import Native, Polled, Threaded, Waiter

    found: dict[str, Any] = {}
    for name in ("native", "polled", "threaded"):
        tensor = torch.ones(1)
        if me.rank == 1:
            me.wait_for(name, [0])
            dist.all_reduce(tensor)
            continue
        work = dist.all_reduce(tensor, async_op=True)
        ways: dict[str, Callable[[], Waiter]] = {
            "native": lambda work=work: Native(work, _nothing),
            "polled": lambda work=work: Polled(work, _nothing),
            "threaded": lambda work=work: Threaded(work.wait, _nothing),
        }
        waiter = ways[name]()
        began = time.monotonic()
        assert not waiter.wait(began + 0.2)
        waited = time.monotonic() - began
        me.reach(name)
        found[name] = waited, waiter.wait(time.monotonic() + 20) and waiter.over()
    return found


def _nothing() -> None:
    pass


def shortest_limit(me: Rank) -> float:
    """Give an operation almost no time."""
    if me.rank == 1:
        me.wait_for("timed out", [0])
        dist.barrier()
        return 0.0
    began = time.monotonic()
    error = _timeout(lambda: dist.barrier(timeout=1e-6))
    took = time.monotonic() - began
    me.reach("timed out")
    error.work.wait(timeout=20)
    return took


def interrupted(me: Rank) -> Any:
    """Interrupt a waiting rank with Ctrl-C."""
    from unstuck.dist.base import held

    if me.rank == 1:
        me.wait_for("interrupted", [0])
        dist.all_reduce(torch.ones(1))
        return None
    # A shell that runs the tests in the background makes them ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    try:
        dist.all_reduce(torch.ones(1), timeout=60)
    except KeyboardInterrupt:
        took = time.monotonic() - began
    else:
        raise AssertionError("not interrupted")
    under_way = [work.call.op for work in held.unfinished()]
    me.reach("interrupted")
    return took, under_way


def threads_used(me: Rank) -> int:
    """Send many messages with a limit, one after another."""
    for _ in range(20):
        if me.rank == 0:
            dist.send(torch.ones(1), 1, timeout=20)
        else:
            dist.recv(torch.zeros(1), 0, timeout=20)
    return sum(thread.name == "unstuck-wait" for thread in threading.enumerate())


def own_timeout_of_the_group(me: Rank) -> Any:
    """Give an operation more time than its group allows; then time out in a monitored barrier."""
    short = dist.new_group([0, 1], timeout=timedelta(seconds=1))
    other = dist.new_group([0, 1])
    if me.rank == 1:
        me.wait_for("timed out", [0])
        return None
    error = _timeout(lambda: dist.all_reduce(torch.ones(1), group=short, timeout=60))
    barrier = _timeout(lambda: dist.monitored_barrier(group=other, timeout=0.5))
    me.reach("timed out")
    return str(error), error.missing, error.elapsed < 20, str(barrier), barrier.missing


def waits_in_bare_torch(me: Rank) -> Any:
    """Make the numbers differ by sends; a rank in the same operation of torch has arrived."""
    if me.rank == 0:
        torch.distributed.send(torch.ones(1), 1)
        torch.distributed.send(torch.ones(1), 1)
    elif me.rank == 1:
        torch.distributed.recv(torch.ones(1), 0)
        torch.distributed.recv(torch.ones(1), 0)
        torch.distributed.all_reduce(torch.ones(1))
        return None
    if me.rank == 2:
        me.wait_for("timed out", [0])
        torch.distributed.all_reduce(torch.ones(1))
        return None
    error = _timeout(lambda: dist.all_reduce(torch.ones(1), timeout=1))
    me.reach("timed out")
    error.work.wait(timeout=20)
    return error.missing
