"""What `--recover` does about every cause, and why. Without it: dump and report.

A restart is for what a restart can fix; what only a person can fix ends at once, before it
costs another hour; what passes by itself is given time. Nothing is ended for what a healthy rank
can look like (`plan.is_proven`), unless the user's own policy names that cause.
"""

from pathlib import Path
from typing import NamedTuple

from unstuck import config
from unstuck.act.policy import DEFAULT, REPORT_ONLY, Policy, parse_rule, parse_table
from unstuck.model.verdict import Cause


class Default(NamedTuple):
    """One rule, and the reason for it in words."""

    acts: str
    why: str


TELL = "dump,report,notify"
RECOVER: dict[Cause, Default] = {
    Cause.NETWORK_PARTITION: Default(
        f"{TELL},wait:15s,checkpoint:30s,exclude:1h,stop:node",
        "a cut may heal; if it does not, the side of the hub continues without the other",
    ),
    Cause.NODE_FAILURE: Default(
        f"{TELL},wait:15s,checkpoint:30s,exclude:1h,stop:node",
        "a silent node may only be cut off and return; if not, the others continue without it",
    ),
    Cause.PROCESS_CRASH: Default(
        f"{TELL},restart:3,stop",
        "a crash may be an accident, which a restart fixes; one that repeats is not",
    ),
    Cause.OUT_OF_MEMORY: Default(
        f"{TELL},restart:1,stop:settings",
        "once it may have been a neighbour's memory; twice it is this job's own",
    ),
    Cause.PROCESS_STOPPED: Default(
        f"{TELL},checkpoint:30s,restart:3,stop",
        "the others lose nothing by restarting, and it may be stopped for good",
    ),
    Cause.STRAGGLER: Default(TELL, "the job moves; a restart would cost more than it brings"),
    Cause.RESOURCE_CONTENTION: Default(
        TELL, "a restart would put the ranks back on the same crowded host"
    ),
    Cause.COLLECTIVE_MISMATCH: Default(
        f"{TELL},stop:code", "the script does it again after every restart"
    ),
    Cause.ORDER_INVERSION: Default(
        f"{TELL},stop:code", "the script does it again after every restart"
    ),
    Cause.UNEVEN_WORK: Default(
        f"{TELL},stop:code", "the same data end at the same place after every restart"
    ),
    Cause.RANK_LEFT_EARLY: Default(
        f"{TELL},stop:code", "the script let a rank go that the others need; it would again"
    ),
    Cause.BUSY_ELSEWHERE: Default(
        TELL, "real work ends by itself, and nobody but you knows how long it may take"
    ),
    Cause.HOST_DEADLOCK: Default(
        TELL, "a rank that uploads or tokenizes in a pool of threads waits for locks as well"
    ),
    Cause.NEVER_JOINED: Default(
        TELL, "a rank that prepares its data before init_process_group is healthy, only late"
    ),
    Cause.STORE_LOST: Default(
        f"{TELL},restart:1,stop:retry",
        "new ranks make a new store; one that belonged to the launcher needs a new job",
    ),
    Cause.TRANSPORT_STALL: Default(
        f"{TELL},wait:30s,checkpoint:30s,restart:2,stop",
        "a network may recover; new connections help where it does not",
    ),
    Cause.NETWORK_MISCONFIGURATION: Default(
        f"{TELL},stop:settings", "no restart changes an interface or a firewall"
    ),
    Cause.HARDWARE_FAULT: Default(
        f"{TELL},checkpoint:30s,exclude:1d,stop:node",
        "the other nodes can continue without the broken one",
    ),
    Cause.SOFTWARE_BUG: Default(f"{TELL},stop:code", "the same versions fail the same way again"),
    Cause.TIMEOUT_TOO_SHORT: Default(
        f"{TELL},stop:settings", "the rank needs longer than the limit, every time"
    ),
    Cause.UNKNOWN: Default(
        f"{TELL},wait:2m,checkpoint:30s,restart:1,stop",
        "nobody knows what it is: time first, one restart, then a person",
    ),
}


def policy(*, recover: bool, on: tuple[str, ...] = (), file: Path | None = None) -> Policy:
    """Put a policy together: `--on` wins over the file, the file over the defaults.

    The file counts only where acting was asked for, by `recover` or `on`.

    Raises:
        ConfigError: the file or an option is not valid.

    Example:
        policy(recover=True, on=("straggler=report",))
    """
    base = _recovering() if recover else reporting()
    if not recover and not on:
        return base
    table = config.table(file, "policy") if recover else {}
    return parse_table(base, table, str(file.name if file else ""), on)


def reporting() -> Policy:
    """Return the policy that never touches the job."""
    return Policy(dict.fromkeys(Cause, REPORT_ONLY), dict.fromkeys(Cause, DEFAULT))


def _recovering() -> Policy:
    rules = {cause: parse_rule(cause, default.acts) for cause, default in RECOVER.items()}
    return Policy(rules, dict.fromkeys(Cause, DEFAULT))
