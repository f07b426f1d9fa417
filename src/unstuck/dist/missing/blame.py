"""Which ranks have not arrived: this rank's own roll call, and what the agents know."""

import os
import socket
import threading
import time
from dataclasses import replace
from typing import Any

from unstuck.dist.base.calls import Call, Handle
from unstuck.dist.base.errors import CollectiveTimeout, Overdue
from unstuck.dist.base.peers import Peer, summary
from unstuck.dist.missing import rollcall
from unstuck.dist.missing.answers import state_of
from unstuck.observe.probe import link

PATIENCE = 0.15
"""Seconds by which ranks that do not answer may delay a timeout; or a tenth of the timeout, up to
a second. When all ranks answer, the roll call takes 2 ms."""
_OWN_HOST = socket.gethostname()
_OWN_TIMEOUT = ("Timed out waiting", "Application timeout")
"""What gloo says when the group's own timeout, shorter than the caller's, ended an operation."""
_NO_LONGER_RUNNING = ("stopped", "gone")


def prepare(call: Call) -> None:
    """Get ready for a roll call while there is still time."""
    roll = rollcall.current()
    if roll is not None:
        roll.prepare(_others(call))


def roll_call(call: Call, allowed: float) -> Overdue:
    """Find out which ranks have not arrived and what each is doing instead."""
    return Overdue(
        op=call.op,
        number=call.number,
        group=call.group.name,
        ranks=call.group.ranks,
        rank=call.group.rank,
        timeout=allowed,
        elapsed=time.monotonic() - call.issued,
        peers=_peers(call, max(PATIENCE, min(0.1 * allowed, 1.0))),
        verb=call.verb,
        copied=call.copied,
    )


def explain_failure(work: Handle, error: BaseException) -> None:
    """Add to an error of torch which rank caused it; if the group was given up, raise a timeout."""
    if not isinstance(error, RuntimeError):
        return
    call = work.call
    overdue = roll_call(call, call.allowed)
    gone = {rank: peer for rank, peer in overdue.peers.items() if peer.state == "gone"}
    leavers = tuple(sorted(rank for rank, peer in overdue.peers.items() if peer.gave_up))
    if not gone and (leavers or any(text in str(error) for text in _OWN_TIMEOUT)):
        raise CollectiveTimeout(replace(overdue, dead=True, given_up_by=leavers), work) from error
    if gone and not getattr(error, "__notes__", None):
        who = summary(gone, call.verb)
        error.add_note(f"unstuck: {call.label()} on group {call.group.name!r}. {who}")


def _peers(call: Call, budget: float) -> dict[int, Peer]:
    others = _others(call)
    reported: dict[str, Any] = {}
    asking = _ask_agents(others, reported, budget)
    found = _ask_ranks(call, others, budget)
    if asking is not None:
        asking.join(timeout=budget)
    for rank in others:
        known = reported.get(str(rank))
        if isinstance(known, dict):
            found[rank] = _with_agent(found[rank], known)
    return found


def _others(call: Call) -> list[int]:
    partners = call.group.ranks if call.partners is None else call.partners
    return [rank for rank in partners if rank != call.group.rank]


def _ask_ranks(call: Call, ranks: list[int], budget: float) -> dict[int, Peer]:
    roll = rollcall.current()
    if roll is None or len(ranks) > rollcall.MOST_ASKED:
        return {rank: Peer(rank, None, state="silent") for rank in ranks}
    until = time.monotonic() + budget
    roll.prepare(ranks)
    roll.await_addresses(ranks, budget / 3)
    states: dict[int, tuple[str, str]] = {}

    def hopeless(rank: int) -> bool:
        states[rank] = state_of(roll.record(rank) or {})
        return states[rank][0] in _NO_LONGER_RUNNING

    answers = roll.ask(call.group.name, ranks, until - time.monotonic(), hopeless)
    found: dict[int, Peer] = {}
    for rank in ranks:
        record = roll.record(rank)
        if record is None:
            doing = "it has not used unstuck.dist yet"
            found[rank] = Peer(rank, None, doing, state="silent")
        elif (answer := answers.get(rank)) is not None:
            found[rank] = _answering(call, rank, _shown(record["host"]), answer)
        else:
            state, doing = states.get(rank) or state_of(record)
            found[rank] = Peer(
                rank,
                None,
                doing or "no answer: dead, stopped, or its host is unreachable",
                _shown(record["host"]),
                state=state if state in _NO_LONGER_RUNNING else "silent",
            )
    return found


def _answering(call: Call, rank: int, host: str, answer: dict[str, Any]) -> Peer:
    runs = [str(label) for label in answer["runs"]]
    return Peer(
        rank,
        _arrived(call, answer, runs),
        str(answer["doing"]),
        host,
        str(answer["file"]),
        int(answer["line"]),
        "running",
        runs[0] if runs else "",
        bool(answer["gave_up"]),
    )


def _shown(host: Any) -> str:
    """Return the name of a host as messages show it: not at all for this one."""
    return "" if host == _OWN_HOST else str(host)


def _arrived(call: Call, answer: dict[str, Any], runs: list[str]) -> bool | None:
    if call.verb != "arrive":
        return False
    if not call.number:
        return None
    if int(answer["index"]) >= call.index():
        return True
    # Sends that bypass this package make the numbers differ: then compare the operation's name.
    return answer["torch"] == call.op or any(label.split()[0] == call.op for label in runs)


def _with_agent(peer: Peer, known: dict[str, Any]) -> Peer:
    """Prefer the agent's report: it also sees what a stuck or stopped process cannot report."""
    still = peer.state not in _NO_LONGER_RUNNING
    return replace(
        peer,
        doing=f"it {known['doing']}" if known.get("doing") else peer.doing,
        host=_shown(known.get("host") or peer.host),
        file=str(known.get("file") or peer.file),
        line=int(known.get("line") or peer.line),
        state=str(known.get("state") or peer.state) if still else peer.state,
    )


def _ask_agents(ranks: list[int], into: dict[str, Any], budget: float) -> threading.Thread | None:
    """Ask this node's agent, if there is one, in a thread."""
    if "UNSTUCK_LIVE_DIR" not in os.environ:
        return None

    def ask() -> None:
        answer = link.ask({"ask": "ranks", "ranks": ranks}, timeout=budget)
        known = answer.get("ranks") if answer is not None else None
        if isinstance(known, dict):
            into.update(known)

    thread = threading.Thread(target=ask, name="unstuck-ask", daemon=True)
    thread.start()
    return thread
