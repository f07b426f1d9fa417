"""Which hosts hear each other directly, as the probes of their agents say.

A way counts as cut only if it once worked: where a firewall drops the probes nothing ever
worked, and that proves nothing.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum
from operator import itemgetter

from unstuck.model.host import PeerLink
from unstuck.model.liveness import FRAME_OVERDUE, PROBE_HEARD, PROBE_QUIET
from unstuck.model.snapshot import NodeState, Snapshot
from unstuck.model.verdict import CutLink


class Way(Enum):
    """What is known of the way from one host to another."""

    WORKS = "works"
    CUT = "cut"
    UNCLEAR = "unclear"
    """It worked, and has been silent for too long to say yes and too briefly to say no."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class _Age:
    told: float
    """Seconds, as the frame said."""
    now: float
    """The same with the age of the frame: at most so long."""

    @property
    def way(self) -> Way:
        if self.told >= PROBE_QUIET:
            return Way.CUT
        return Way.WORKS if self.now < PROBE_HEARD else Way.UNCLEAR


Ages = dict[tuple[str, str], _Age]


@dataclass(frozen=True, slots=True)
class Links:
    """The matrix of who hears whom."""

    heard: Ages = field(default_factory=Ages)
    """(listener, speaker)."""
    answered: Ages = field(default_factory=Ages)
    """(who asked, who answered)."""
    speakers: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Per host: those that can tell whether they hear it."""
    steady: dict[str, float] = field(default_factory=dict[str, float])
    """Per host that can tell: for how long the hub has heard it without a gap."""

    def way(self, source: str, target: str) -> Way:
        """Tell whether what `source` sends reaches `target`."""
        age = self._reached(source, target)
        return Way.UNKNOWN if age is None else age.way

    def _reached(self, source: str, target: str) -> _Age | None:
        """Take the target's own word; what its answers, or their lack, say if that is too old."""
        heard = self.heard.get((target, source))
        answered = self.answered.get((source, target))
        if answered is None or (heard is not None and heard.way is not Way.UNCLEAR):
            return heard
        if answered.way is Way.CUT and self.way_heard(target, source) is not Way.WORKS:
            return heard  # the answer, not the question, may have been lost
        return answered

    def way_heard(self, source: str, target: str) -> Way:
        """Tell the same from what the target itself says only."""
        age = self.heard.get((target, source))
        return Way.UNKNOWN if age is None else age.way

    def listeners(self, source: str, *ways: Way) -> list[str]:
        """List the hosts to which the way from `source` is one of these."""
        known = sorted(self.speakers.get(source, ()))
        return [host for host in known if self.way_heard(source, host) in ways]

    def is_doubted(self, host: str) -> bool:
        """Tell whether some other host no longer hears this one, or gets no answer from it."""
        known = self.speakers.get(host, ())
        return any(
            self.way_heard(host, other) is Way.CUT or self.way(other, host) is Way.CUT
            for other in known
        )

    def quiet_for(self, source: str, target: str) -> float:
        """Return for how long nothing from `source` has reached `target`."""
        age = self._reached(source, target)
        return age.told if age else 0.0

    def cuts(self) -> tuple[CutLink, ...]:
        """List the ways that are cut between hosts which the hub has heard all the time.

        A host that was silent itself until just now was the reason that others did not hear it.
        """
        steady = self.steady
        return tuple(
            CutLink(source, target, age.told)
            for (target, source), age in sorted(self.heard.items(), key=itemgetter(0))
            if age.way is Way.CUT
            and age.told <= min(steady.get(source, 0.0), steady.get(target, 0.0))
        )


def read_links(snapshot: Snapshot) -> Links:
    """Read the matrix from the frames that are fresh, as far as anything in it is wrong."""
    links = Links()
    suspects = _suspects(snapshot)
    if not suspects:
        return links
    there = {node.node for node in snapshot.nodes if not node.ended and not node.disconnected}
    speakers: dict[str, set[str]] = defaultdict(set)
    for node in snapshot.nodes:
        if not node.links or node.node not in there or node.silent_for > FRAME_OVERDUE:
            continue
        steady = math.inf if node.steady_for is None else node.steady_for
        links.steady[node.host] = max(steady, links.steady.get(node.host, 0.0))
        for link in node.links:
            if node.node not in suspects and link.node not in suspects:
                continue
            if link.node in there and link.host != node.host:
                _take(links, node, link)
                speakers[link.host].add(node.host)
    links.speakers.update(speakers)
    return links


def _suspects(snapshot: Snapshot) -> set[str]:
    """Find the nodes that are silent, or of which one misses the other: mostly none."""
    silent = {node.node for node in snapshot.nodes if node.silent_for > FRAME_OVERDUE}
    return silent | {
        name
        for node in snapshot.nodes
        for link in node.links
        if (link.heard_for is not None and link.heard_for >= PROBE_QUIET)
        or (link.answered_for is not None and link.answered_for >= PROBE_QUIET)
        for name in (node.node, link.node)
    }


def _take(links: Links, node: NodeState, link: PeerLink) -> None:
    for ages, seconds in ((links.heard, link.heard_for), (links.answered, link.answered_for)):
        if seconds is None:
            continue
        age, key = _Age(seconds, seconds + node.silent_for), (node.host, link.host)
        if key not in ages or age.now < ages[key].now:
            ages[key] = age
