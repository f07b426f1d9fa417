"""The answers to what a rank asks about the job; `observe/probe/link.py` describes their form."""

import math
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from unstuck.model import liveness
from unstuck.model.frame import Frame
from unstuck.model.liveness import Doubt, Life, Standing
from unstuck.model.rank import CodeLine, RankState
from unstuck.model.snapshot import NodeState, Snapshot

MOST_RANKS = 1024
"""In one answer; those that do not simply wait are listed first."""
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
}


def answer(
    question: dict[str, Any], snapshot: Snapshot, describe: Describe | None = None
) -> dict[str, Any]:
    """Answer a question about the whole job, as the hub sees it."""
    match question.get("ask"):
        case "ranks":
            silent = liveness.silent_hosts(snapshot)
            ranks = choose(snapshot.ranks, question.get("ranks"))
            return about_ranks(ranks, snapshot.taken_at, silent, describe)
        case "peers":
            return about_peers(snapshot)
        case other:
            return {"error": f"there is no answer to {str(other)[:80]!r}: ask ranks or peers"}


def choose(ranks: Iterable[RankState], wanted: Any) -> list[RankState]:
    """Return the ranks that a question names; all if it names none."""
    if not isinstance(wanted, list):
        return list(ranks)
    numbers = {one for one in wanted if isinstance(one, int)}  # type: ignore[reportUnknownVariableType]
    return [state for state in ranks if state.rank in numbers]


def roster(snapshot: Snapshot) -> dict[str, list[int]]:
    """Map each host to its ranks."""
    found: dict[str, list[int]] = {}
    for one in snapshot.ranks:
        found.setdefault(one.host, []).append(one.rank)
    return found


# --- what every rank does


def about_ranks(
    ranks: Iterable[RankState],
    wall: float,
    silent: frozenset[str] = frozenset(),
    describe: Describe | None = None,
) -> dict[str, Any]:
    """Say of each rank what it does; `wall` is the Unix time at which that was seen."""
    found = [(state_of(one, silent), one) for one in ranks]
    found.sort(key=lambda pair: pair[0] == "waiting")
    shown = {str(one.rank): _rank(one, state, wall, describe) for state, one in found[:MOST_RANKS]}
    answer: dict[str, Any] = {"ranks": shown, "whole": True, "why": ""}
    if len(found) > MOST_RANKS:
        answer["left_out"] = len(found) - MOST_RANKS
    return answer


def state_of(one: RankState, silent: frozenset[str] = frozenset()) -> str:
    """Return the word for the state of a rank; `silent`: the hosts that are."""
    process, standing = one.process, liveness.of_rank(one, silent)
    if standing is Standing.GONE:
        orderly = process.exit_code == 0 or (process.exit_code is None and one.phase == "exit")
        return "left" if orderly else "gone"
    if standing in (Standing.SILENT, Standing.STOPPED):
        return standing.value
    signs = {
        "failed": one.failure is not None or one.phase == "exception",
        "left": one.left_for is not None or one.phase == "exit",
        "starting": one.phase in ("born", "start"),
        "unobserved": bool(one.unobserved),
        "waiting": one.in_flight or one.phase == "init",
        "frozen": liveness.is_frozen(one),
    }
    return next((word for word, holds in signs.items() if holds), "running")


def _rank(one: RankState, state: str, wall: float, describe: Describe | None) -> dict[str, Any]:
    line = _line(one) or CodeLine("", 0, "")
    seconds = _seconds(one, state)
    return {
        "host": one.host,
        "state": state,
        "doing": _doing(one, state, describe),
        "file": line.file,
        "line": line.line,
        "function": line.function,
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
            return f"cannot be observed: {one.unobserved}"
        case "waiting":
            return _waits(one)
        case "running" | "frozen" if describe is not None:
            return describe(one)
        case _:
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


# --- who is alive


def about_peers(snapshot: Snapshot) -> dict[str, Any]:
    """Say which nodes and ranks are alive and which are silent, and since when."""
    silent, doubts = liveness.silent_hosts(snapshot), liveness.doubts(snapshot.nodes)
    by_host, wall = roster(snapshot), snapshot.taken_at
    nodes = {
        node.node: _node(node, doubts.get(node.host, Doubt.NONE), wall, by_host.get(node.host, []))
        for node in snapshot.nodes
    }
    ranks = {
        str(one.rank): _peer(one, state_of(one, silent), wall)
        for one in snapshot.ranks[:MOST_RANKS]
    }
    return {"nodes": nodes, "ranks": ranks, "whole": True, "why": ""}


def own_peers(frame: Frame, wall: float) -> dict[str, Any]:
    """Say the same as one node sees it: its own ranks, and the other agents it can hear."""
    ranks = {str(one.rank): _peer(one, state_of(one), wall) for one in frame.ranks}
    here = NodeState(frame.node, frame.host)
    nodes = {frame.node: _node(here, Doubt.NONE, wall, [one.rank for one in frame.ranks])}
    for link in frame.links:
        # A peer that was never heard proves nothing: the link may not be meant to work.
        seen = NodeState(link.node, link.host, link.heard_for or 0.0, suspect_after=math.inf)
        nodes[link.node] = _node(seen, Doubt.ALL if link.suspect else Doubt.NONE, wall, [])
    return {"nodes": nodes, "ranks": ranks, "whole": True, "why": ""}


def silent_ranks(snapshot: Snapshot) -> dict[str, Any]:
    """Return the ranks that are not heard, as `about_peers` shows them."""
    silent = liveness.silent_hosts(snapshot)
    since = {node.host: node.silent_for for node in snapshot.nodes}
    found: dict[str, Any] = {}
    for one in snapshot.ranks:
        standing = liveness.of_rank(one, silent)
        if standing in (Standing.LIVE, Standing.UNSEEN) and not liveness.is_frozen(one):
            continue  # nearly all of them, many times a second
        state = state_of(one, silent)
        if state in SILENT_STATES and len(found) < MOST_RANKS:
            found[str(one.rank)] = _peer(one, state, snapshot.taken_at, since.get(one.host))
    return found


def _node(node: NodeState, doubt: Doubt, wall: float, ranks: list[int]) -> dict[str, Any]:
    life = liveness.of_node(node, doubt)
    heard = life in liveness.HEARD
    return {
        "host": node.host,
        "state": (Life.PRESENT if heard else life).value,
        "alive": heard or life is Life.STOPPED,
        "silent": not heard and life is not Life.ENDED,
        "since": moment(wall - node.silent_for),
        "seconds": node.silent_for,
        "ranks": ranks,
    }


def _peer(
    one: RankState, state: str, wall: float, silent_for: float | None = None
) -> dict[str, Any]:
    seconds = silent_for if state == "silent" and silent_for is not None else _seconds(one, state)
    return {
        "host": one.host,
        "state": state,
        "alive": state not in ("gone", "silent"),
        "silent": state in SILENT_STATES,
        "since": moment(wall - seconds),
        "seconds": round(seconds, 3),
    }


def moment(unix: float) -> str:
    """Write a Unix time as ISO 8601 in UTC with milliseconds."""
    text = datetime.fromtimestamp(unix, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
