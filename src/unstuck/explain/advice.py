"""What to do and what not to try, for a verdict. Pure: the same verdict, the same advice.

The texts live in `playbook/`, one function a cause; this module picks the function and
keeps its answer short: at most three things to do and two not to, the first thing first.
"""

from collections.abc import Callable

import msgspec

from unstuck.explain.playbook import chinese, code, crash, host, network
from unstuck.explain.playbook.facts import Advice, Facts
from unstuck.model.verdict import Cause, Verdict

MOST_DO = 3
MOST_DONT = 2

PLAYBOOK: dict[Cause, Callable[[Facts], Advice]] = {
    Cause.NETWORK_PARTITION: network.partition,
    Cause.NODE_FAILURE: network.node_failure,
    Cause.PROCESS_CRASH: crash.process_crash,
    Cause.OUT_OF_MEMORY: crash.out_of_memory,
    Cause.PROCESS_STOPPED: host.process_stopped,
    Cause.STRAGGLER: host.straggler,
    Cause.RESOURCE_CONTENTION: host.resource_contention,
    Cause.COLLECTIVE_MISMATCH: code.collective_mismatch,
    Cause.ORDER_INVERSION: code.order_inversion,
    Cause.UNEVEN_WORK: code.uneven_work,
    Cause.RANK_LEFT_EARLY: code.rank_left_early,
    Cause.BUSY_ELSEWHERE: code.busy_elsewhere,
    Cause.HOST_DEADLOCK: host.host_deadlock,
    Cause.NEVER_JOINED: network.never_joined,
    Cause.STORE_LOST: network.store_lost,
    Cause.TRANSPORT_STALL: network.transport_stall,
    Cause.NETWORK_MISCONFIGURATION: network.misconfiguration,
    Cause.HARDWARE_FAULT: host.hardware_fault,
    Cause.SOFTWARE_BUG: code.software_bug,
    Cause.TIMEOUT_TOO_SHORT: code.timeout_too_short,
    Cause.UNKNOWN: code.unknown,
}


def advise(verdict: Verdict, lang: str = "en") -> Verdict:
    """Return the verdict with `do` and `dont` filled in for its cause and its culprits.

    Example:
        advise(verdict).do[0]  # "on node7: `kill -CONT 4711` (rank 2 goes on where it stopped)"
    """
    facts = Facts(verdict)
    advice = chinese.advice(facts) if lang == "zh" else PLAYBOOK[verdict.cause](facts)
    return msgspec.structs.replace(verdict, do=advice.do[:MOST_DO], dont=advice.dont[:MOST_DONT])
