"""What is known of the other ranks of an operation that did not complete in time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["Peer"]

_CANNOT_COME = ("stopped", "gone", "left", "failed")


@dataclass(frozen=True)
class Peer:
    """One rank of the group, as the rank that timed out could see it."""

    rank: int
    came: bool | None
    """Whether it issued the operation; None when that could not be found out."""
    doing: str = ""
    """What it does instead, in words; empty when nothing is known."""
    host: str = ""
    file: str = ""
    line: int = 0
    state: str = ""
    """`running`, `stopped`, `gone` or `silent`; or as the agent says: `frozen`, `left`, ..."""
    runs: str = ""
    """The operation of `unstuck.dist` it waits in on the same group, as `all_gather #7`."""
    gave_up: bool = False
    """It gave the group up and shut its sockets."""


def missing_of(peers: Mapping[int, Peer]) -> list[int]:
    """Return the ranks that certainly did not come, or can no longer."""
    return sorted(
        rank
        for rank, peer in peers.items()
        if peer.came is False or (peer.came is None and peer.state in _CANNOT_COME)
    )


def silent_of(peers: Mapping[int, Peer]) -> list[int]:
    """Return the ranks that say nothing and of which nothing else is known."""
    missing = missing_of(peers)
    return sorted(rank for rank, peer in peers.items() if peer.came is None and rank not in missing)


def told(peers: Mapping[int, Peer], verb: str) -> str:
    """Say in sentences who did not come and what each does instead; empty: everybody came."""
    missing, silent = missing_of(peers), silent_of(peers)
    lines = [_sentence(peers[rank], verb) for rank in missing[:8]]
    if len(missing) > 8:
        lines.append(f"{len(missing) - 8} more did not {verb}: ranks {listed(missing[8:])}.")
    if silent:
        who = "rank" if len(silent) == 1 else "ranks"
        lines.append(f"Nothing is known of {who} {listed(silent)}{_reasons(peers, silent)}.")
    return " ".join(lines)


def listed(ranks: Iterable[int]) -> str:
    """Write ranks as people do.

    Example:
        >>> listed([4, 1, 2, 3, 7])
        '1-4, 7'
    """
    parts: list[list[int]] = []
    for rank in sorted(ranks):
        if parts and rank == parts[-1][-1] + 1:
            parts[-1].append(rank)
        else:
            parts.append([rank])
    return ", ".join(
        "-".join(map(str, (part[0], part[-1]))) if len(part) > 2 else ", ".join(map(str, part))
        for part in parts
    )


def _sentence(peer: Peer, verb: str) -> str:
    where = f" on {peer.host}" if peer.host else ""
    doing = f": {peer.doing}" if peer.doing else ""
    return f"Rank {peer.rank}{where} did not {verb}{doing}."


def _reasons(peers: Mapping[int, Peer], ranks: list[int]) -> str:
    reasons = {peers[rank].doing for rank in ranks if peers[rank].doing}
    return f" ({'; '.join(sorted(reasons))})" if reasons else ""
