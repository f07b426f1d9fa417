"""What a rank is told that asks about the job; see `observe/probe/link.py` for the form."""

import math
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from unstuck.model.frame import Frame
from unstuck.model.rank import CodeLine, RankState
from unstuck.model.snapshot import NodeState, Snapshot

MOST_RANKS = 1024
"""In one answer; those that do not simply wait come first."""
FROZEN_AFTER = 3.0
"""The helper thread of a rank runs ten times a second."""
_DOUBTED_AFTER = 1.1
"""A node that others suspect is silent when its frame of every second is missing as well."""
SILENT_STATES = frozenset({"gone", "silent", "stopped", "frozen"})

Describe = Callable[[RankState], str]

_PLAIN = {
    "starting": "is starting",
    "running": "is running its own code",
    "waiting": "waits for others",
    "stopped": "is stopped",
    "frozen": "cannot run Python code at the moment",
    "silent": "is not heard from: its node is silent",
    "left": "has left the job",
    "failed": "has failed",
    "gone": "has ended",
    "unobserved": "cannot be seen into",
}


def answer(
    question: dict[str, Any], snapshot: Snapshot, describe: Describe | None = None
) -> dict[str, Any]:
    """Answer a question about the whole job, as the hub sees it."""
    match question.get("ask"):
        case "ranks":
            silent = silent_hosts(snapshot)
            ranks = chosen(snapshot.ranks, question.get("ranks"))
            return tell_ranks(ranks, snapshot.taken_at, silent, describe)
        case "peers":
            return tell_peers(snapshot)
        case other:
            return {"error": f"there is no answer to {str(other)[:80]!r}: ask ranks or peers"}


def chosen(ranks: Iterable[RankState], wanted: Any) -> list[RankState]:
    """Return the ranks that a question names; all if it names none."""
    if not isinstance(wanted, list):
        return list(ranks)
    numbers = {one for one in wanted if isinstance(one, int)}  # type: ignore[reportUnknownVariableType]
    return [state for state in ranks if state.rank in numbers]


def tell_ranks(
    ranks: Iterable[RankState],
    wall: float,
    silent: frozenset[str] = frozenset(),
    describe: Describe | None = None,
) -> dict[str, Any]:
    """Say of each rank what it does; `wall` is the Unix time at which that was seen."""
    found = [(state_of(one, silent), one) for one in ranks]
    found.sort(key=lambda pair: pair[0] == "waiting")
    told = {str(one.rank): _rank(one, state, wall, describe) for state, one in found[:MOST_RANKS]}
    answer: dict[str, Any] = {"ranks": told, "whole": True, "why": ""}
    if len(found) > MOST_RANKS:
        answer["left_out"] = len(found) - MOST_RANKS
    return answer


def tell_peers(snapshot: Snapshot) -> dict[str, Any]:
    """Say which nodes and ranks are alive and which are silent, and since when."""
    silent = silent_hosts(snapshot)
    doubted = _doubted(snapshot.nodes)
    by_host = roster(snapshot)
    nodes = {
        node.node: _node(node, snapshot.taken_at, doubted, by_host.get(node.host, []))
        for node in snapshot.nodes
    }
    ranks = {
        str(one.rank): _peer(one, state_of(one, silent), snapshot.taken_at)
        for one in snapshot.ranks[:MOST_RANKS]
    }
    return {"nodes": nodes, "ranks": ranks, "whole": True, "why": ""}


def silent_ranks(snapshot: Snapshot) -> dict[str, Any]:
    """Return those ranks of which nothing is heard, as `tell_peers` shows them."""
    silent = silent_hosts(snapshot)
    since = {node.host: node.silent_for for node in snapshot.nodes}
    found: dict[str, Any] = {}
    for one in snapshot.ranks:
        if _is_heard(one) and one.host not in silent:
            continue  # nearly all of them, many times a second
        state = state_of(one, silent)
        if state in SILENT_STATES and len(found) < MOST_RANKS:
            found[str(one.rank)] = _peer(one, state, snapshot.taken_at, since.get(one.host))
    return found


def _is_heard(one: RankState) -> bool:
    runs = one.process.gone_for is None and one.process.state in ("R", "S", "D")
    return runs and one.beat_age <= FROZEN_AFTER


def roster(snapshot: Snapshot) -> dict[str, list[int]]:
    """Say which ranks each host has."""
    found: dict[str, list[int]] = {}
    for one in snapshot.ranks:
        found.setdefault(one.host, []).append(one.rank)
    return found


def _node(node: NodeState, wall: float, doubted: frozenset[str], ranks: list[int]) -> Any:
    state = _node_state(node, doubted)
    return {
        "host": node.host,
        "state": state,
        "alive": state in ("alive", "stopped"),
        "silent": state not in ("alive", "ended"),
        "since": moment(wall - node.silent_for),
        "seconds": node.silent_for,
        "ranks": ranks,
    }


def tell_own_peers(frame: Frame, wall: float) -> dict[str, Any]:
    """The same as one node sees it by itself: its ranks, and the other agents it can hear."""
    ranks = {str(one.rank): _peer(one, state_of(one), wall) for one in frame.ranks}
    here = NodeState(frame.node, frame.host)
    nodes = {frame.node: _node(here, wall, frozenset(), [one.rank for one in frame.ranks])}
    for link in frame.links:
        # One that was never heard proves nothing: the way there may not be meant to work.
        doubted = frozenset([link.host] if link.suspect else [])
        seen = NodeState(link.node, link.host, link.heard_for or 0.0, suspect_after=math.inf)
        nodes[link.node] = _node(seen, wall, doubted, [])
    return {"nodes": nodes, "ranks": ranks, "whole": True, "why": ""}


def _peer(one: RankState, state: str, wall: float, silent_for: float | None = None) -> Any:
    seconds = silent_for if state == "silent" and silent_for is not None else _seconds(one, state)
    return {
        "host": one.host,
        "state": state,
        "alive": state not in ("gone", "silent"),
        "silent": state in SILENT_STATES,
        "since": moment(wall - seconds),
        "seconds": round(seconds, 3),
    }


def silent_hosts(snapshot: Snapshot) -> frozenset[str]:
    """Name the hosts from which no agent is heard."""
    doubted = _doubted(snapshot.nodes)
    states: dict[str, set[str]] = {}
    for node in snapshot.nodes:
        states.setdefault(node.host, set()).add(_node_state(node, doubted))
    return frozenset(host for host, found in states.items() if "alive" not in found)


def _doubted(nodes: Iterable[NodeState]) -> frozenset[str]:
    """Name the hosts that every other one that asks them directly, and is heard, suspects."""
    asked: dict[str, list[bool]] = {}
    for node in nodes:
        if node.silent_for < _DOUBTED_AFTER and not node.disconnected:
            for link in node.links:
                asked.setdefault(link.host, []).append(link.suspect)
    return frozenset(host for host, found in asked.items() if all(found))


def _node_state(node: NodeState, doubted: frozenset[str]) -> str:
    if node.ended:
        return "ended"
    if node.disconnected:
        return "lost"
    limit = _DOUBTED_AFTER if node.host in doubted else node.suspect_after
    if node.silent_for > limit:
        return "stopped" if node.kernel_answers else "silent"
    return "alive"


def state_of(one: RankState, silent: frozenset[str] = frozenset()) -> str:
    """Return the word for how a rank is."""
    process = one.process
    ended = process.gone_for is not None or process.state in ("gone", "Z", "X")
    if ended and (process.exit_code == 0 or (process.exit_code is None and one.phase == "exit")):
        return "left"
    signs = {
        "gone": ended,
        "silent": one.host in silent,
        "stopped": process.state in ("T", "t", "F"),
        "failed": one.failure is not None or one.phase == "exception",
        "left": one.left_for is not None or one.phase == "exit",
        "starting": one.phase in ("born", "start"),
        "unobserved": bool(one.unobserved),
        "waiting": one.in_flight or one.phase == "init",
        "frozen": one.beat_age > FROZEN_AFTER,
    }
    return next((word for word, holds in signs.items() if holds), "running")


def _rank(one: RankState, state: str, wall: float, describe: Describe | None) -> dict[str, Any]:
    line = _line(one)
    seconds = _seconds(one, state)
    return {
        "host": one.host,
        "state": state,
        "doing": _doing(one, state, describe),
        "file": line.file if line else "",
        "line": line.line if line else 0,
        "function": line.function if line else "",
        "since": moment(wall - seconds),
        "seconds": round(seconds, 3),
    }


def _line(one: RankState) -> CodeLine | None:
    if one.failure is not None and one.failure.at is not None:
        return one.failure.at
    return next((line for line in one.stack if line.user), one.stack[0] if one.stack else None)


def _seconds(one: RankState, state: str) -> float:
    if state == "gone" and one.process.gone_for is not None:
        return one.process.gone_for
    if state == "failed" and one.failure is not None:
        return one.failure.age
    if state == "left" and one.left_for is not None:
        return one.left_for
    if state == "starting":
        return one.age
    return max(one.stalled_for, one.beat_age if state == "frozen" else 0.0)


def _doing(one: RankState, state: str, describe: Describe | None) -> str:
    match state:
        case "failed" if one.failure is not None:
            first = (one.failure.message.splitlines() or [""])[0]
            return f"failed with {one.failure.type}: {first[:200]}"
        case "gone":
            return f"has ended{_ending(one.process.exit_code)}"
        case "unobserved":
            return f"cannot be seen into: {one.unobserved}"
        case "waiting":
            return _waits(one)
        case _:
            return _at_work(one, state, describe)


def _at_work(one: RankState, state: str, describe: Describe | None) -> str:
    if describe is not None and state in ("running", "frozen"):
        return describe(one)
    section = f" in section {one.sections[-1]}" if one.sections else ""
    return _PLAIN[state] + section


def _ending(code: int | None) -> str:
    if code is None:
        return ""
    return f" with exit code {code}" if code >= 0 else f", killed by signal {-code}"


def _waits(one: RankState) -> str:
    if one.phase == "init":
        return "waits in init_process_group"
    for group in one.groups:
        if group.pending:
            head = group.pending[0]
            return f"waits in {head.op} number {head.number} of group {group.name}"
    if one.p2p:
        return f"waits in a {one.p2p[0].kind} with rank {one.p2p[0].peer}"
    behind = [group for group in one.groups if group.enqueued > group.completed]
    if behind:
        return f"waits in collective number {behind[0].completed + 1} of group {behind[0].name}"
    return _PLAIN["waiting"]


def moment(unix: float) -> str:
    """Write a Unix time as ISO 8601 in UTC with milliseconds."""
    text = datetime.fromtimestamp(unix, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
