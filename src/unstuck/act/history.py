"""What was done before and how far the job has come: the ground on which a plan is made."""

from pathlib import Path

import msgspec
from msgspec import Struct

from unstuck.act.plan import Did, Ground
from unstuck.model.action import TELLING, Action
from unstuck.model.snapshot import NodeState, Snapshot
from unstuck.model.verdict import Cause

LOST_FOR_GOOD = 30.0
"""Seconds after which a silent node does not count any more: it was lost some other time."""


class _Line(Struct):
    """A line of the ledger that tells of an act on the job."""

    act: Action
    run: str
    attempt: str
    cause: Cause
    ranks: tuple[int, ...] = ()
    step: int = 0
    ran_for: float = 0.0


def read_past(ledger: Path, run_id: str) -> tuple[Did, ...]:
    """Return what an earlier hub of this run did; lines about other things are passed over."""
    try:
        lines = ledger.read_bytes().splitlines()
    except OSError:
        return ()
    found: list[Did] = []
    for raw in lines:
        try:
            line = msgspec.json.decode(raw, type=_Line)
        except msgspec.MsgspecError:
            continue
        if line.run == run_id and line.act not in TELLING:
            did = Did(line.act, line.attempt, line.cause, line.ranks, line.step, line.ran_for)
            found.append(did)
    return tuple(found)


def attempt_of(snapshot: Snapshot) -> str:
    """Name the attempt; restart counts alone may stay the same when the membership changes."""
    named = next((state.attempt for state in snapshot.ranks if state.attempt), "")
    return named or f"#{snapshot.attempt}"


def _progress(snapshot: Snapshot) -> int:
    """Count optimizer steps; collectives in a job that takes none."""
    steps = max((state.step for state in snapshot.ranks), default=0)
    groups = (group for state in snapshot.ranks for group in state.groups)
    return steps or max((group.enqueued for group in groups), default=0)


def _is_there(node: NodeState) -> bool:
    return not node.ended and not node.disconnected and node.silent_for < LOST_FOR_GOOD


def ground_of(snapshot: Snapshot, hub: str, max_restarts: int | None, fewest: int) -> Ground:
    """Say what the job allows, and how far this attempt has come."""
    hosts = {hub: None} | {node.host: None for node in snapshot.nodes if _is_there(node)}
    left = None if max_restarts is None else max(0, max_restarts - snapshot.attempt)
    return Ground(
        attempt=attempt_of(snapshot),
        restarts_left=left,
        hosts=tuple(hosts),
        fewest=fewest,
        step=_progress(snapshot),
        ran_for=max((state.age for state in snapshot.ranks), default=0.0),
    )
