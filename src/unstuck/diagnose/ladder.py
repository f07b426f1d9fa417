"""The order in which causes are judged, from the surest to the most doubtful.

A rule looks at a case and answers one of three things: `None`, it is not about this; an empty
list, it is about this but it is too early to say more, and nothing below may speak either; or what
it found, which is the verdict. So an earlier rule hides the later ones: their place is their proof.

`docs/reference/how-it-decides.md` is made from this file.
"""

from collections.abc import Callable
from typing import NamedTuple

from unstuck.diagnose.case import Case
from unstuck.diagnose.dead import judge as dead
from unstuck.diagnose.finding import Finding
from unstuck.diagnose.network import healed
from unstuck.diagnose.slow import straggler
from unstuck.diagnose.stuck import no_progress
from unstuck.diagnose.waits import joining, stall


class Rule(NamedTuple):
    """One rung."""

    name: str
    find: Callable[[Case], list[Finding] | None]
    why: str
    """Why it stands where it stands."""
    living: bool = False
    """It judges ranks that live: not during a pause, and more evidence may be asked for."""


LADDER = (
    Rule(
        "the job is being stopped",
        dead.is_being_stopped,
        "Ctrl-C, SIGTERM or our own order: ranks die because somebody wants it.",
    ),
    Rule(
        "the launcher was killed",
        dead.launcher_killed,
        "A launcher killed by a signal before any rank died takes its ranks with it.",
    ),
    Rule(
        "a cut network has healed",
        healed.network_healed,
        "A node that is back tells its own side, which corrects what was said while it was away.",
    ),
    Rule(
        "a rank died",
        dead.rank_died,
        "A death is a fact. The first one is the root; what fell over afterwards followed.",
    ),
    Rule(
        "a rank left while others needed it",
        dead.rank_left,
        "It ended without an error, and others issued more collectives than it ever did.",
    ),
    Rule(
        "only consequences are visible",
        dead.only_followers,
        "Ranks that complain of a peer are seldom to blame: ask whom they waited for.",
    ),
    Rule(
        "nodes have not arrived",
        joining.nodes_absent,
        "Launchers wait at the rendezvous, so there is no rank to judge yet.",
        living=True,
    ),
    Rule(
        "the calls differ",
        stall.calls_differ,
        "The flight recorder shows it: such a collective can never complete, whoever waits.",
        living=True,
    ),
    Rule(
        "somebody is waited for",
        stall.waited_for,
        "Where the waiting ends is the answer: ranks that have not arrived (stopped, silent, gone,"
        " late), a circle, or an operation that all have begun and that does not complete: then a"
        " device that has completed less than the others stopped, or nobody is to blame.",
        living=True,
    ),
    Rule(
        "a rank slows the job down",
        straggler.rank_is_slow,
        "The job moves, so nothing is stuck: own times are compared.",
        living=True,
    ),
    Rule(
        "nobody waits and nothing moves",
        no_progress.nobody_waits,
        "No collective is under way, so nothing above can see it; a healthy pause looks the same"
        " for two minutes.",
        living=True,
    ),
)
