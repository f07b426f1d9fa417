"""What is known about the other ranks of an operation that did not complete in time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["Peer"]

_CANNOT_ARRIVE = ("stopped", "gone", "left", "failed")
_PERFECT = {"arrive": "arrived", "send": "sent", "receive": "received"}
_MOST_SENTENCES = 8


@dataclass(frozen=True)
class Peer:
    """One rank of the group, as seen by the rank that timed out."""

    rank: int
    came: bool | None
    """Whether it issued the operation; None when that is not known."""
    doing: str = ""
    """What it is doing instead, in words; empty when nothing is known."""
    host: str = ""
    file: str = ""
    line: int = 0
    state: str = ""
    """`running`, `stopped`, `gone` or `silent`; or what the agent reports: `frozen`, `left`, ..."""
    runs: str = ""
    """The `unstuck.dist` operation it is waiting in on the same group, e.g. `all_gather #7`."""
    gave_up: bool = False
    """It gave up the group and shut its sockets."""


def missing_of(peers: Mapping[int, Peer]) -> list[int]:
    """Return the ranks that have certainly not arrived, or no longer can."""
    return sorted(
        rank
        for rank, peer in peers.items()
        if peer.came is False or (peer.came is None and peer.state in _CANNOT_ARRIVE)
    )


def silent_of(peers: Mapping[int, Peer]) -> list[int]:
    """Return the ranks that do not answer and about which nothing else is known."""
    missing = missing_of(peers)
    return sorted(rank for rank, peer in peers.items() if peer.came is None and rank not in missing)


def summary(peers: Mapping[int, Peer], verb: str) -> str:
    """Say which ranks have not arrived and what each is doing; empty: all have arrived."""
    missing, silent = missing_of(peers), silent_of(peers)
    perfect = _PERFECT[verb]
    sentences = [_sentence(peers[rank], perfect) for rank in missing[:_MOST_SENTENCES]]
    if more := missing[_MOST_SENTENCES:]:
        sentences.append(f"{len(more)} more have not {perfect}: ranks {listed(more)}.")
    if silent:
        who = "rank" if len(silent) == 1 else "ranks"
        reasons = "; ".join(sorted({peers[rank].doing for rank in silent} - {""}))
        why = f" ({reasons})" if reasons else ""
        sentences.append(f"Nothing is known about {who} {listed(silent)}{why}.")
    return " ".join(sentences)


def listed(ranks: Iterable[int]) -> str:
    """List ranks, with runs of three or more as ranges.

    Example:
        >>> listed([4, 1, 2, 3, 7])
        '1-4, 7'
    """
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return ", ".join(
        f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs
    )


def _sentence(peer: Peer, perfect: str) -> str:
    where = f" on {peer.host}" if peer.host else ""
    doing = f": {peer.doing}" if peer.doing else ""
    return f"Rank {peer.rank}{where} has not {perfect}{doing}."
