"""Hosts that fell silent: a dead node, or a cut network.

The hub alone cannot tell the two apart. Peers can: who is still heard by somebody lives, and
who comes back tells its own side. Ranks behind a cut are innocent; only where one side is
clearly the one that is cut off are its ranks named, so that it is clear where to look.
"""

from unstuck.diagnose.finding import Finding
from unstuck.diagnose.links import Links, Way
from unstuck.diagnose.standing import Job
from unstuck.diagnose.words import hosts_text, ranks_text, seconds_text, sentence
from unstuck.model.rank import RankState
from unstuck.model.verdict import (
    Alternative,
    Cause,
    Confidence,
    Culprit,
    CutLink,
    Evidence,
)

DECIDED_BY = 4.0
"""So long a silent node may leave its peers undecided; then it is judged all the same."""
TOGETHER = 2.0
"""Nodes that fell silent this close to each other fell silent for one reason."""
_MOST_ITEMS = 5
_NOTHING_HEARD = "is on {host}, from which nothing is heard"
_FROZEN = "is on {host}, which answers but whose agent does not run"
_ONE_WAY = "is on {host}, which is heard but which nothing reaches"


def is_undecided(job: Job, host: str) -> bool:
    """Tell whether the peers of a silent host will soon know more of it."""
    if job.silent_for.get(host, DECIDED_BY) >= DECIDED_BY:
        return False
    unsure = job.links.listeners(host, Way.UNCLEAR)
    hearing = job.links.listeners(host, Way.WORKS)
    # Where somebody hears it, all that may hear it still must say whether they reach it too.
    return bool(unsure) or any(job.links.way(other, host) is Way.UNCLEAR for other in hearing)


def explain_silent(job: Job, states: list[RankState]) -> list[Finding]:
    """Say why nothing is heard from the hosts of these ranks; nothing while peers may tell."""
    hosts = sorted({state.host for state in states})
    if any(is_undecided(job, host) for host in hosts):
        return []
    alive = [host for host in hosts if job.links.listeners(host, Way.WORKS)]
    found = [_explain_heard(job, host, _on(states, host)) for host in alive]
    frozen = [host for host in hosts if host not in alive and _kernel_answers(job, host)]
    found += [_explain_frozen(job, host, _on(states, host)) for host in frozen]
    lost = [host for host in hosts if host not in alive and host not in frozen]
    if not lost:
        return found
    together = _lost_together(job, lost[0])
    if len(together) > 1:
        both = [state for state in states if state.host in together]
        found.append(_explain_sides(job, together, both))
        lost = [host for host in lost if host not in together]
    return found + [_explain_lost(job, host, _on(states, host)) for host in lost]


# --- a silent host that somebody hears: it lives


def _explain_heard(job: Job, host: str, states: list[RankState]) -> Finding:
    hub, links = job.snapshot.hub, job.links
    hearing = links.listeners(host, Way.WORKS)
    unanswered = [other for other in hearing if links.way(other, host) is Way.CUT]
    if hub in hearing and hub not in unanswered:
        return _explain_frames_lost(job, host, states)
    one_way = bool(unanswered)
    cut = [CutLink(other, host, links.quiet_for(other, host)) for other in unanswered]
    if hub not in hearing:
        cut.append(CutLink(host, hub or "the hub", job.silent_for[host]))
    what = (
        f"what {hosts_text(unanswered)} {_sends(unanswered)} does not reach {host}, while {host} "
        "is heard there"
        if one_way
        else f"{host} lives, but nothing from it reaches {hub or 'the hub'}"
    )
    nobody_reaches = not links.listeners(host, Way.CUT) and len(unanswered) == len(hearing) > 1
    return Finding(
        cause=Cause.NETWORK_PARTITION,
        confidence=Confidence.LIKELY,
        because=f"{hosts_text(hearing)} {_hears(hearing)} it, so it is no dead node",
        culprits=ranks_named(states, _ONE_WAY, job.silent_for[host]) if nobody_reaches else (),
        victims=tuple(state.rank for state in states),
        summary=sentence(f"{what}."),
        evidence=(
            _no_frame(job, host),
            *(_hears_evidence(links, host, other) for other in hearing[:_MOST_ITEMS]),
            *_unheard_evidence(job, host),
        ),
        alternatives=(
            Alternative(
                Cause.PROCESS_STOPPED,
                f"on {host}: `ps -o stat,cmd -C python`; an agent that is stopped or starved "
                "sends no frames either",
            ),
        )
        if not one_way
        else (),
        cut=tuple(cut),
    )


def _explain_frames_lost(job: Job, host: str, states: list[RankState]) -> Finding:
    """The hub's own host hears it both ways, but its frames do not come through."""
    hub = job.snapshot.hub
    return Finding(
        cause=Cause.NETWORK_PARTITION,
        confidence=Confidence.POSSIBLE,
        because=f"small probes pass between {hub} and {host}, but its reports do not arrive",
        culprits=(),
        victims=tuple(state.rank for state in states),
        summary=f"{host} answers small probes, but its reports no longer reach {hub}.",
        evidence=(_no_frame(job, host), _hears_evidence(job.links, host, hub)),
        alternatives=(
            Alternative(
                Cause.TRANSPORT_STALL,
                f"on {host}: `ping -M do -s 1472 -c 3 {hub}`; no answer: large packets are lost "
                "(MTU), small ones are not",
            ),
        ),
        cut=(CutLink(host, hub, job.silent_for[host]),),
    )


def _explain_frozen(job: Job, host: str, states: list[RankState]) -> Finding:
    """The machine and its network answer; what should run there does not."""
    return Finding(
        cause=Cause.PROCESS_STOPPED,
        confidence=Confidence.POSSIBLE,
        because=f"the kernel of {host} confirms what is sent to it, so neither the node nor the "
        "network is lost; but its agent does not run, so what its ranks do is not known",
        culprits=ranks_named(states, _FROZEN, job.silent_for[host]),
        evidence=(_no_frame(job, host), Evidence(host, "its kernel confirms TCP data", "root")),
        alternatives=(
            Alternative(
                Cause.RESOURCE_CONTENTION,
                f"on {host}: `uptime; grep . /proc/pressure/*`; starved processes send nothing "
                "either",
            ),
        ),
    )


# --- a silent host that nobody hears


def _explain_lost(job: Job, host: str, states: list[RankState]) -> Finding:
    deaf = job.links.listeners(host, Way.CUT)
    others = [other for other in deaf if other != job.snapshot.hub]
    if others:
        because = (
            f"neither the hub nor {hosts_text(others)} {_hears(others)} {host}; if a cut parts "
            "it from all of them at once, that looks the same"
        )
    else:
        because = (
            f"nothing was heard from {host}; from here a dead node and a cut network look the same"
        )
    return Finding(
        cause=Cause.NODE_FAILURE,
        confidence=Confidence.LIKELY if others else Confidence.POSSIBLE,
        because=because,
        culprits=ranks_named(states, _NOTHING_HEARD, job.silent_for[host]),
        evidence=(_no_frame(job, host), *_unheard_evidence(job, host)),
        alternatives=(
            Alternative(
                Cause.NETWORK_PARTITION,
                f"reach {host} another way (console, ssh, power state): if it runs, the network "
                "is cut; its agent says so itself when it is back",
            ),
        ),
    )


def _explain_sides(job: Job, lost: list[str], states: list[RankState]) -> Finding:
    """Several hosts at once: one cut explains that better than several dead nodes."""
    here = [host for host in all_hosts(job) if host not in lost]
    smaller = len(lost) < len(here)
    seconds = max(job.silent_for[host] for host in lost)
    witnessed = any(job.links.listeners(host, Way.CUT) for host in lost)
    if smaller:
        told = "they are the smaller side"
    elif len(lost) == len(here):
        told = "both sides are equally large, so which one is cut off cannot be told from here"
    else:
        told = f"{hosts_text(here)} with the hub is the smaller side, so it may be the one cut off"
    return Finding(
        cause=Cause.NETWORK_PARTITION,
        confidence=Confidence.LIKELY if witnessed else Confidence.POSSIBLE,
        because=f"{len(lost)} hosts fell silent at once; {told}",
        culprits=ranks_named(states, _NOTHING_HEARD, seconds) if smaller else (),
        victims=() if smaller else tuple(state.rank for state in states),
        summary=f"The network is cut between {hosts_text(here)} here and {hosts_text(lost)}: "
        f"{ranks_text(_ranks_on(job, here))} here, {ranks_text(_ranks_on(job, lost))} there; "
        f"{told}.",
        evidence=tuple(
            item
            for host in lost[:_MOST_ITEMS]
            for item in (_no_frame(job, host), *_unheard_evidence(job, host))
        ),
        alternatives=(
            Alternative(
                Cause.NODE_FAILURE,
                f"reach {lost[0]} another way (console, ssh, power state): if it is down, look "
                "for what took all of them (power, switch, rack)",
            ),
        ),
        cut=tuple(
            CutLink(source, target, job.silent_for[source])
            for source in lost
            for target in here[:1]
        ),
    )


def _lost_together(job: Job, host: str) -> list[str]:
    since = job.silent_for[host]
    return sorted(
        other
        for other, seconds in job.silent_for.items()
        if abs(seconds - since) <= TOGETHER
        and not job.links.listeners(other, Way.WORKS)
        and not _kernel_answers(job, other)
    )


def _kernel_answers(job: Job, host: str) -> bool:
    return any(node.kernel_answers for node in job.snapshot.nodes if node.host == host)


# --- words


def ranks_named(states: list[RankState], doing: str, seconds: float) -> tuple[Culprit, ...]:
    """Name ranks for where they are, not for what they do: `doing` may hold `{host}`."""
    return tuple(
        Culprit(s.rank, s.host, doing.format(host=s.host), s.process.pid, seconds=seconds)
        for s in sorted(states, key=lambda state: state.rank)
    )


def _no_frame(job: Job, host: str) -> Evidence:
    return Evidence(host, f"no frame for {seconds_text(job.silent_for[host])}", "root")


def _hears_evidence(links: Links, host: str, other: str) -> Evidence:
    text = f"hears {host} (last {seconds_text(links.quiet_for(host, other))} ago)"
    if links.way(other, host) is Way.CUT:
        text += f", but {host} has not answered for {seconds_text(links.quiet_for(other, host))}"
    return Evidence(other, text, "root")


def _unheard_evidence(job: Job, host: str) -> list[Evidence]:
    return [
        Evidence(
            other,
            f"has not heard {host} for {seconds_text(job.links.quiet_for(host, other))}",
            "root",
        )
        for other in job.links.listeners(host, Way.CUT)[:_MOST_ITEMS]
    ]


def _on(states: list[RankState], host: str) -> list[RankState]:
    return [state for state in states if state.host == host]


def all_hosts(job: Job) -> list[str]:
    """List the hosts of the job."""
    return sorted({node.host for node in job.snapshot.nodes if not node.ended})


def _ranks_on(job: Job, hosts: list[str]) -> list[int]:
    wanted = set(hosts)
    return [rank for rank, state in job.states.items() if state.host in wanted]


def _hears(hosts: list[str]) -> str:
    return "hears" if len(hosts) == 1 else "hear"


def _sends(hosts: list[str]) -> str:
    return "sends" if len(hosts) == 1 else "send"
