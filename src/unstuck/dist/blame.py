"""Who did not come: this rank's own roll call, and what the agents know."""

import os
import socket
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch.distributed import distributed_c10d as c10d

from unstuck.dist import rollcall
from unstuck.dist.answers import state_of
from unstuck.dist.errors import CollectiveTimeout, Overdue
from unstuck.dist.peers import Peer, told

if TYPE_CHECKING:
    from unstuck.dist.work import Call, TimedWork

PATIENCE = 0.15
"""Seconds that a timeout may come later for ranks that do not answer; or a tenth of the timeout,
up to a second. When all answer, the roll call takes 2 ms."""
_OWN_HOST = socket.gethostname()


def prepare(call: "Call") -> None:
    """Get ready for a roll call while there is still time."""
    roll = _roll()
    if roll is not None:
        roll.prepare(_asked(call))


def roll_call(call: "Call", allowed: float, budget: float | None = None) -> Overdue:
    """Find out who did not come and what each does instead."""
    if budget is None:
        budget = max(PATIENCE, min(0.1 * allowed, 1.0))
    return Overdue(
        op=call.op,
        number=call.number,
        group=call.group.name,
        ranks=call.group.ranks,
        rank=call.group.rank,
        timeout=allowed,
        elapsed=time.monotonic() - call.issued,
        peers=_peers(call, budget),
        verb=call.verb,
        copied=call.copied,
    )


def explain_failure(work: "TimedWork", error: BaseException) -> None:
    """Add to a failure of torch which rank is behind it; a group given up is a timeout here too."""
    if not isinstance(error, RuntimeError):
        return
    call = work.call
    overdue = roll_call(call, call.allowed)
    gone = {rank: peer for rank, peer in overdue.peers.items() if peer.state == "gone"}
    leavers = tuple(sorted(rank for rank, peer in overdue.peers.items() if peer.gave_up))
    if not gone and (leavers or _own_timeout(error)):
        raise CollectiveTimeout(replace(overdue, dead=True, given_up_by=leavers), work) from error
    words = told(gone, call.verb)
    if words and not getattr(error, "__notes__", None):
        error.add_note(f"unstuck: {call.words()} on group {call.group.name!r}. {words}")


def _own_timeout(error: BaseException) -> bool:
    """Tell whether the group's own timeout ended it, which was shorter than the caller's."""
    return any(words in str(error) for words in ("Timed out waiting", "Application timeout"))


def _peers(call: "Call", budget: float) -> dict[int, Peer]:
    asked = _asked(call)
    told_by_agents: dict[str, Any] = {}
    asking = _ask_agents(asked, told_by_agents, budget)
    found = _own(call, asked, budget)
    if asking is not None:
        asking.join(timeout=budget)
    for rank in asked:
        known = told_by_agents.get(str(rank))
        if isinstance(known, dict):
            found[rank] = _with_agent(found[rank], known)
    return found


def _asked(call: "Call") -> list[int]:
    partners = call.group.ranks if call.partners is None else call.partners
    return [rank for rank in partners if rank != call.group.rank]


def _roll() -> rollcall.RollCall | None:
    if not c10d.is_initialized():
        return None
    return rollcall.current(c10d._get_default_group())


def _own(call: "Call", asked: list[int], budget: float) -> dict[int, Peer]:
    roll = _roll()
    if roll is None or len(asked) > rollcall.MOST_ASKED:
        return {rank: Peer(rank, None, state="silent") for rank in asked}
    until = time.monotonic() + budget
    roll.prepare(asked)
    roll.await_addresses(asked, budget / 3)
    states: dict[int, tuple[str, str]] = {}

    def hopeless(rank: int) -> bool:
        states[rank] = state_of(roll.record(rank) or {})
        return states[rank][0] in ("stopped", "gone")

    answers = roll.ask(call.group.name, asked, until - time.monotonic(), hopeless)
    return {
        rank: _peer(call, rank, roll.record(rank), states.get(rank), answers.get(rank))
        for rank in asked
    }


def _peer(
    call: "Call",
    rank: int,
    record: dict[str, Any] | None,
    state: tuple[str, str] | None,
    answer: dict[str, Any] | None,
) -> Peer:
    if record is None:
        return Peer(rank, None, "it has not used unstuck.dist so far", state="silent")
    state = state or state_of(record)
    host = str(record["host"])
    host = "" if host == _OWN_HOST else host
    if answer is None:
        if state[0] in ("stopped", "gone"):
            return Peer(rank, None, state[1], host, state=state[0])
        words = state[1] or "no answer: dead, stopped, or its host cannot be reached"
        return Peer(rank, None, words, host, state="silent")
    runs = [str(words) for words in answer["runs"]]
    return Peer(
        rank,
        _came(call, answer, runs),
        str(answer["doing"]),
        host,
        str(answer["file"]),
        int(answer["line"]),
        "running",
        runs[0] if runs else "",
        bool(answer["gave_up"]),
    )


def _came(call: "Call", answer: dict[str, Any], runs: list[str]) -> bool | None:
    if call.verb != "come":
        return False
    if not call.number:
        return None
    if int(answer["index"]) >= call.index():
        return True
    # Sends that this package did not see make the numbers differ; the same wait is the same.
    return answer["torch"] == call.op or any(words.split()[0] == call.op for words in runs)


def _with_agent(peer: Peer, known: dict[str, Any]) -> Peer:
    """Prefer the agent's words: it also sees what a stuck or stopped process cannot say."""
    host = str(known.get("host") or peer.host)
    return replace(
        peer,
        doing=f"it {known['doing']}" if known.get("doing") else peer.doing,
        host="" if host == _OWN_HOST else host,
        file=str(known.get("file") or peer.file),
        line=int(known.get("line") or peer.line),
        state=peer.state
        if peer.state in ("stopped", "gone")
        else str(known.get("state") or peer.state),
    )


def _ask_agents(ranks: list[int], into: dict[str, Any], budget: float) -> threading.Thread | None:
    """Ask the agent of this node, if there is one, in a thread of its own."""
    if "UNSTUCK_LIVE_DIR" not in os.environ:
        return None

    def ask() -> None:
        try:
            from unstuck.observe.probe import link  # type: ignore[attr-defined]

            said = link.ask({"ask": "ranks", "ranks": ranks}, timeout=budget)
        except Exception:
            return
        known = said.get("ranks") if isinstance(said, dict) else None
        if isinstance(known, dict):
            into.update(known)

    thread = threading.Thread(target=ask, name="unstuck-ask", daemon=True)
    thread.start()
    return thread
