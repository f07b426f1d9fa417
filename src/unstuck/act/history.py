"""What was done before and how far the job has got: the ground on which a plan is made."""

import contextlib
from pathlib import Path

import msgspec

from unstuck.act.plan import Did, Ground
from unstuck.model.action import TELLING
from unstuck.model.liveness import LOST_FOR_GOOD
from unstuck.model.snapshot import NodeState, Snapshot


def read_past(ledger: Path, run_id: str) -> tuple[Did, ...]:
    """Return what an earlier hub of this run did; lines about other things are skipped."""
    found: list[Did] = []
    with contextlib.suppress(OSError):
        for line in ledger.read_bytes().splitlines():
            with contextlib.suppress(msgspec.MsgspecError):
                found.append(msgspec.json.decode(line, type=Did))
    return tuple(did for did in found if did.run == run_id and did.action not in TELLING)


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
    """Return what the job allows, and how far this attempt has got."""
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
