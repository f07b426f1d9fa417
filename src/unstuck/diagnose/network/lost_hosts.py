"""Hosts that went silent: a dead node, or a network partition.

The hub alone cannot tell the two apart. Peers can: a host that some peer still hears is alive, and
one that comes back tells its own side. Ranks behind a cut are innocent; only where one side is
clearly the one that is cut off are its ranks named, so that it is clear where to look.
"""

from unstuck.diagnose.finding import Finding, blame
from unstuck.diagnose.job.links import Links, Way
from unstuck.diagnose.job.standing import Job
from unstuck.diagnose.text import hosts_text, ranks_text, seconds_text, sentence
from unstuck.diagnose.thresholds import FELL_SILENT_TOGETHER, PEERS_DECIDE_WITHIN
from unstuck.model.doing import Contact, Unreachable
from unstuck.model.rank import RankState
from unstuck.model.verdict import (
    Alternative,
    Cause,
    Confidence,
    Culprit,
    CutLink,
    Evidence,
    Role,
)

_MOST_ITEMS = 5


def is_undecided(job: Job, host: str) -> bool:
    """Tell whether the peers of a silent host will soon know more of it."""
    if job.silent_for.get(host, PEERS_DECIDE_WITHIN) >= PEERS_DECIDE_WITHIN:
        return False
    unsure = job.links.listeners(host, Way.UNCLEAR)
    hearing = job.links.listeners(host, Way.WORKS)
    # Where somebody hears it, all that may hear it still must say whether they reach it too.
    return bool(unsure) or any(job.links.way(other, host) is Way.UNCLEAR for other in hearing)


def explain_silent(job: Job, states: list[RankState]) -> list[Finding]:
    """Say why the hosts of these ranks are silent; nothing while peers may soon know."""
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


# --- a silent host that some peer hears: it is alive


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
        f"what {hosts_text(unanswered)} {_sends(unanswered)} does not reach {host}, although "
        f"{host} can still be heard there"
        if one_way
        else f"{host} is alive, but nothing from it reaches {hub or 'the hub'}"
    )
    nobody_reaches = not links.listeners(host, Way.CUT) and len(unanswered) == len(hearing) > 1
    return Finding(
        cause=Cause.NETWORK_PARTITION,
        confidence=Confidence.LIKELY,
        because=f"{hosts_text(hearing)} still {_hears(hearing)} it, so the node is not dead",
        culprits=ranks_named(states, Contact.ONE_WAY, job.silent_for[host])
        if nobody_reaches
        else (),
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
                f"on {host}: `ps -o stat,cmd -C python`; a stopped or starved agent sends no "
                "reports either",
            ),
        )
        if not one_way
        else (),
        cut=tuple(cut),
    )


def _explain_frames_lost(job: Job, host: str, states: list[RankState]) -> Finding:
    """The hub's own host exchanges probes with it, but its frames do not arrive."""
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
                f"on {host}: `ping -M do -s 1472 -c 3 {hub}`; no answer means that large packets "
                "are lost (MTU) and small ones are not",
            ),
        ),
        cut=(CutLink(host, hub, job.silent_for[host]),),
    )


def _explain_frozen(job: Job, host: str, states: list[RankState]) -> Finding:
    """The machine and its network answer; its processes do not run."""
    return Finding(
        cause=Cause.PROCESS_STOPPED,
        confidence=Confidence.POSSIBLE,
        because=f"the kernel of {host} acknowledges TCP data, so neither the node nor the network "
        "is down; but its agent does not run, so what its ranks do is not known",
        culprits=ranks_named(states, Contact.FROZEN, job.silent_for[host]),
        evidence=(
            _no_frame(job, host),
            Evidence(host, "its kernel acknowledges TCP data", Role.ROOT),
        ),
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
            f"neither the hub nor {hosts_text(others)} {_hears(others)} {host}; a partition that "
            "separates it from all of them looks the same"
        )
    else:
        because = (
            f"nothing is heard from {host}; from here, a dead node and a network partition look "
            "the same"
        )
    return Finding(
        cause=Cause.NODE_FAILURE,
        confidence=Confidence.LIKELY if others else Confidence.POSSIBLE,
        because=because,
        culprits=ranks_named(states, Contact.SILENT, job.silent_for[host]),
        evidence=(_no_frame(job, host), *_unheard_evidence(job, host)),
        alternatives=(
            Alternative(
                Cause.NETWORK_PARTITION,
                f"check {host} another way (console, ssh, power state): if it is up, the network "
                "is cut; its agent reports that itself once it is back",
            ),
        ),
    )


def _explain_sides(job: Job, lost: list[str], states: list[RankState]) -> Finding:
    """Several hosts at once: one partition is more likely than several dead nodes."""
    here = [host for host in all_hosts(job) if host not in lost]
    smaller = len(lost) < len(here)
    seconds = max(job.silent_for[host] for host in lost)
    witnessed = any(job.links.listeners(host, Way.CUT) for host in lost)
    if smaller:
        side = "they are the smaller side"
    elif len(lost) == len(here):
        side = "both sides are the same size, so it is not known which one is cut off"
    else:
        side = f"{hosts_text(here)} with the hub is the smaller side, so it may be the one cut off"
    return Finding(
        cause=Cause.NETWORK_PARTITION,
        confidence=Confidence.LIKELY if witnessed else Confidence.POSSIBLE,
        because=f"{len(lost)} hosts went silent at once; {side}",
        culprits=ranks_named(states, Contact.SILENT, seconds) if smaller else (),
        victims=() if smaller else tuple(state.rank for state in states),
        summary=f"The network is cut between {hosts_text(here)} "
        f"({ranks_text(_ranks_on(job, here))}) and {hosts_text(lost)} "
        f"({ranks_text(_ranks_on(job, lost))}); {side}.",
        evidence=tuple(
            item
            for host in lost[:_MOST_ITEMS]
            for item in (_no_frame(job, host), *_unheard_evidence(job, host))
        ),
        alternatives=(
            Alternative(
                Cause.NODE_FAILURE,
                f"check {lost[0]} another way (console, ssh, power state): if it is down, look "
                "for what they share (power, switch, rack)",
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
        if abs(seconds - since) <= FELL_SILENT_TOGETHER
        and not job.links.listeners(other, Way.WORKS)
        and not _kernel_answers(job, other)
    )


def _kernel_answers(job: Job, host: str) -> bool:
    return any(node.kernel_answers for node in job.snapshot.nodes if node.host == host)


# --- words


def ranks_named(states: list[RankState], how: Contact, seconds: float) -> tuple[Culprit, ...]:
    """Name ranks for where they are, not for what they do."""
    return tuple(
        blame(s.rank, s.host, Unreachable(s.host, how), pid=s.process.pid, seconds=seconds)
        for s in sorted(states, key=lambda state: state.rank)
    )


def _no_frame(job: Job, host: str) -> Evidence:
    return Evidence(host, f"no report for {seconds_text(job.silent_for[host])}", Role.ROOT)


def _hears_evidence(links: Links, host: str, other: str) -> Evidence:
    text = f"hears {host} (last {seconds_text(links.quiet_for(host, other))} ago)"
    if links.way(other, host) is Way.CUT:
        text += f", but {host} has not answered for {seconds_text(links.quiet_for(other, host))}"
    return Evidence(other, text, Role.ROOT)


def _unheard_evidence(job: Job, host: str) -> list[Evidence]:
    return [
        Evidence(
            other,
            f"has not heard {host} for {seconds_text(job.links.quiet_for(host, other))}",
            Role.ROOT,
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
