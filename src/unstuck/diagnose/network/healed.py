"""Nodes that were cut off and are back, with their own side of the story."""

from unstuck.diagnose.case import Case
from unstuck.diagnose.finding import Finding
from unstuck.diagnose.job.standing import Job, all_move
from unstuck.diagnose.network.lost_hosts import all_hosts, ranks_named
from unstuck.diagnose.text import hosts_text, ranks_text, seconds_text
from unstuck.model.doing import Contact
from unstuck.model.snapshot import NodeState
from unstuck.model.verdict import Cause, Confidence, CutLink, Evidence, Role

_MOST_ITEMS = 5


def network_healed(case: Case) -> list[Finding] | None:
    """Report a partition from the nodes' own accounts, once all that were cut off are back."""
    found = None if case.deaths.roots else _explain(case.job)
    return [found] if found else None


def _explain(job: Job) -> Finding | None:
    back = [node for node in job.snapshot.nodes if node.cut_off_for and not node.ended]
    if not back or job.silent_for:
        return None
    hosts = sorted({node.host for node in back})
    ranks = [state for state in job.states.values() if state.host in hosts]
    alive = [state.rank for state in ranks if state.process.gone_for is None]
    seconds = max(node.cut_off_for for node in back)
    hub = job.snapshot.hub or "the hub"
    lived = f"; {ranks_text(alive)} kept running there" if alive else ""
    lonely = _cut_off(job, back, hosts)
    cut_off = [state for state in job.states.values() if state.host in lonely]
    culprits = ranks_named(cut_off, Contact.BACK, seconds)
    waiting = set[int]() if all_move(job.states.values()) else set(job.states)
    return Finding(
        cause=Cause.NETWORK_PARTITION,
        confidence=Confidence.CERTAIN,
        because=_because(hosts) + lived,
        culprits=culprits,
        victims=tuple(sorted(waiting - {one.rank for one in culprits})),
        seconds=seconds,
        summary=_summary(hosts, lonely, hub, seconds) + ("" if waiting else " The job continues."),
        evidence=tuple(item for node in back[:_MOST_ITEMS] for item in _story(node, hub)),
        cut=tuple(cut for node in back for cut in _past_cuts(node, hub)),
        over=True,
    )


def _cut_off(job: Job, back: list[NodeState], hosts: list[str]) -> list[str]:
    """Choose the side that was isolated: the few that are back, or those that none of them heard.

    Of two hosts, or of two halves, neither can be shown to be the one cut off.
    """
    here = [host for host in all_hosts(job) if host not in hosts]
    if len(hosts) < len(here):
        return hosts
    together = all({*hosts} - {node.host} <= {*node.heard} for node in back)
    return here if len(here) < len(hosts) and together else []


def _because(hosts: list[str]) -> str:
    if len(hosts) == 1:
        return f"the agent on {hosts[0]} kept running and has reported what it saw"
    return f"the agents on {hosts_text(hosts)} kept running and have reported what they saw"


def _summary(hosts: list[str], lonely: list[str], hub: str, seconds: float) -> str:
    first, other = (hosts, hub) if lonely in (hosts, []) else (lonely, hosts_text(hosts))
    verb = "was" if len(first) == 1 else "were"
    heard = "" if first is hosts else ", and the others heard each other throughout"
    return (
        f"{hosts_text(first)} {verb} cut off from {other} for {seconds_text(seconds)} and kept "
        f"running{heard}: the network was cut, no node failed. It works again."
    )


def _story(node: NodeState, hub: str) -> list[Evidence]:
    lasted = seconds_text(node.cut_off_for)
    items = [Evidence(node.host, f"could not reach the hub for {lasted}", Role.ROOT)]
    if node.unheard:
        items.append(Evidence(node.host, f"did not hear {hosts_text(node.unheard)}", Role.ROOT))
    if node.heard:
        text = f"heard {hosts_text(node.heard)} throughout"
        if hub in node.heard:
            text += ": only what it sent was lost"
        items.append(Evidence(node.host, text, Role.ROOT))
    return items


def _past_cuts(node: NodeState, hub: str) -> list[CutLink]:
    there = CutLink(node.host, hub, node.cut_off_for)
    return [there] if hub in node.heard else [there, CutLink(hub, node.host, node.cut_off_for)]
