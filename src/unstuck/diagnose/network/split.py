"""Hosts that both reach the hub but not each other, while ranks on both wait for each other."""

from unstuck.diagnose.finding import Finding
from unstuck.diagnose.job.links import Links, Way
from unstuck.diagnose.job.standing import Job
from unstuck.diagnose.text import seconds_text, sentence
from unstuck.diagnose.waits.sinks import Sink, SinkKind
from unstuck.model.verdict import Alternative, Cause, Confidence, CutLink, Evidence, Role

_MOST_ITEMS = 5


def explain_cut(job: Job, sink: Sink) -> Finding | None:
    """Report hosts that both reach the hub but not each other, if waiting ranks are on both."""
    cuts = job.links.cuts()
    if not cuts or not _may_be_the_network(job, sink):
        return None
    ranks = {*sink.members, *sink.victims, *sink.stuck.waiting}
    hosts = {job.host(rank) for rank in ranks}
    across = [cut for cut in cuts if cut.source in hosts and cut.target in hosts]
    if not across:
        return None
    return Finding(
        cause=Cause.NETWORK_PARTITION,
        confidence=Confidence.LIKELY,
        because="that link worked before, and the waiting ranks are on both sides of it",
        culprits=(),
        victims=tuple(sorted(ranks)),
        summary=sentence(f"{_pairs(across)}, while both reach the hub."),
        evidence=tuple(_cut_evidence(job.links, across)),
        alternatives=(
            Alternative(
                Cause.TRANSPORT_STALL,
                f"on {across[0].source}: `ping -c 3 {across[0].target}`; if it answers, only our "
                "probes are blocked, and the fault is in the collective's own connections",
            ),
        ),
        cut=tuple(across),
    )


def _may_be_the_network(job: Job, sink: Sink) -> bool:
    """Exclude ranks that are not in any operation: what they do instead explains the wait."""
    if sink.kind is not SinkKind.RANK:
        return True
    known = [job.states[rank] for rank in sink.members if rank in job.states]
    here = [state for state in known if job.host(state.rank) not in job.silent_for]
    return bool(here) and all(state.in_flight for state in here)


def _cut_evidence(links: Links, cuts: list[CutLink]) -> list[Evidence]:
    items: list[Evidence] = []
    for cut in cuts[:_MOST_ITEMS]:
        text = f"has not heard {cut.source} for {seconds_text(cut.seconds)}"
        items.append(Evidence(cut.target, text, Role.ROOT))
        if links.way(cut.target, cut.source) is Way.WORKS:
            items.append(Evidence(cut.source, f"hears {cut.target}: only one direction is cut"))
    return items


def _pairs(cuts: list[CutLink]) -> str:
    ways = {(cut.source, cut.target) for cut in cuts}
    pairs: list[str] = []
    for source, target in sorted(ways):
        if (target, source) not in ways:
            pairs.append(f"what {source} sends does not reach {target}")
        elif source < target:
            pairs.append(f"{source} and {target} cannot reach each other")
    rest = len(pairs) - 3
    return "; ".join(pairs[:3]) + (f"; and {rest} more pairs" if rest > 0 else "")
