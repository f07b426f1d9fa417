"""Score `unstuck explain` on real failure logs: `python -m unstuck.show.score DIR`.

A case is a JSON file with a `log` and the right answer (`cause_class`, `evidence`), which is only
used for scoring. Printed are the marks by kind of evidence, and a line for every miss.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from unstuck.explain.kb.load import load
from unstuck.model.verdict import Cause, Verdict
from unstuck.pipelines.logs import explain_text

RIGHT: dict[str, tuple[Cause, ...]] = {
    "straggler": (Cause.STRAGGLER,),
    "rank_missing_uneven_work": (Cause.UNEVEN_WORK, Cause.RANK_LEFT_EARLY),
    "deadlock_mismatched_collective": (
        Cause.COLLECTIVE_MISMATCH,
        Cause.ORDER_INVERSION,
        Cause.HOST_DEADLOCK,
    ),
    "node_failure_or_crash": (
        Cause.NODE_FAILURE,
        Cause.PROCESS_CRASH,
        Cause.PROCESS_STOPPED,
        Cause.STORE_LOST,
    ),
    "oom": (Cause.OUT_OF_MEMORY,),
    "network_partition_or_unreachable": (
        Cause.NETWORK_PARTITION,
        Cause.TRANSPORT_STALL,
        Cause.NODE_FAILURE,
    ),
    "network_misconfiguration": (Cause.NETWORK_MISCONFIGURATION,),
    "rendezvous_or_store": (Cause.NEVER_JOINED, Cause.STORE_LOST),
    "resource_contention": (Cause.RESOURCE_CONTENTION, Cause.OUT_OF_MEMORY),
    "hardware_fault": (Cause.HARDWARE_FAULT,),
    "version_or_software_bug": (Cause.SOFTWARE_BUG,),
    "timeout_too_short_for_real_work": (Cause.BUSY_ELSEWHERE, Cause.TIMEOUT_TOO_SHORT),
}
NEGATIVE = "not_a_distributed_failure"
FAMILIES: dict[str, tuple[str, ...]] = {
    "c10d-client-connect": ("tcpstore/client-timeout", "network/numeric-hostname"),
    "collective-mismatch-detail": ("pytorch/detail-mode-mismatch",),
    "cuda-fabric-not-ready": ("cuda/fabric-not-ready-802",),
    "dataloader-killed": ("dataloader/worker-killed",),
    "dataloader-bus-error": ("dataloader/bus-error-shm",),
    "ddp-param-verification": ("ddp/params-verification",),
    "elastic-childfailed-sigkill": ("torchrun/sigkill",),
    "elastic-childfailed-sigsegv": ("torchrun/sigsegv",),
    "gloo-collective-mismatch": ("gloo/size-mismatch",),
    "gloo-connection-closed": ("gloo/closed-by-peer", "gloo/reset-by-peer"),
    "gloo-no-interface": ("gloo/no-interface", "network/numeric-hostname"),
    "gpu-xid-or-lost": ("gpu/xid", "gpu/pcie-aer", "gpu/xid-application"),
    "monitored-barrier": ("gloo/monitored-barrier", "gloo/monitored-barrier-victim"),
    "nccl-collective-mismatch": ("nccl/mismatched-collective",),
    "nccl-communicator-aborted": ("nccl/communicator-aborted", "nccl/watchdog-collective-timeout"),
    "nccl-heartbeat-monitor": ("nccl/heartbeat-monitor-stuck",),
    "nccl-remote-error": ("nccl/remote-error", "nccl/socket-call-failed"),
    "nccl-watchdog-timeout": ("nccl/watchdog-collective-timeout",),
    "ofi-efa-error": ("network/ofi-efa",),
    "rdzv-closed": ("torchrun/rdzv-closed",),
    "rdzv-connection-error": ("torchrun/rdzv-connection-error", "tcpstore/client-timeout"),
    "rdzv-timeout": ("torchrun/rdzv-timeout",),
    "spawn-sigkill": ("pytorch/spawn-process-exited",),
    "store-based-barrier": ("pytorch/store-based-barrier", "pytorch/store-based-barrier-waiting"),
    "tcpstore-connection-lost": ("tcpstore/remote-closed",),
}
"""Signature family of a case -> its records, unless `domain-slug` is the record `domain/slug`."""
MARKS = ("right", "listed", "cannot tell", "wrong", "false alarm", "not scored")
KINDS = ("thread", "log", "inferred")


class Scored(Struct, frozen=True):
    """One case and how its verdict fared."""

    name: str
    kind: str
    wanted: str
    mark: str
    got: str
    family: bool | None = None
    """Whether a record of the right signature family was found; None: not derivable."""


def score(case: dict[str, str], verdict: Verdict | None) -> Scored:
    """Compare a verdict with a case's answer."""
    wanted = case["cause_class"]
    got = "no verdict" if verdict is None else str(verdict.cause)
    if verdict is not None and verdict.records:
        got += f" ({verdict.records[0]})"
    answer = mark(wanted, verdict)
    return Scored(case["id"], case["evidence"], wanted, answer, got, family(case, verdict))


@cache
def _known() -> frozenset[str]:
    return frozenset(load().records)


def family(case: dict[str, str], verdict: Verdict | None) -> bool | None:
    """Tell whether the verdict rests on a record of the case's signature family."""
    name = case.get("signature_family", "")
    same = name.replace("-", "/", 1)
    wanted = FAMILIES.get(name) or ((same,) if same in _known() else ())
    if not wanted:
        return None
    return verdict is not None and not set(wanted).isdisjoint(verdict.records)


def mark(wanted: str, verdict: Verdict | None) -> str:
    """Return one of `MARKS` for an answer class and a verdict."""
    if wanted == NEGATIVE:
        return "right" if verdict is None else "false alarm"
    if wanted not in RIGHT:
        return "not scored"
    if verdict is None:
        return "cannot tell"
    if verdict.cause in RIGHT[wanted]:
        return "right"
    if any(other.cause in RIGHT[wanted] for other in verdict.alternatives):
        return "listed"
    return "cannot tell" if verdict.cause is Cause.UNKNOWN else "wrong"


def table(scored: Sequence[Scored]) -> list[str]:
    """Return the table by kind of evidence, then one line for every miss."""
    lines = [f"{'evidence':<10}{'cases':>6}" + "".join(f"{name:>13}" for name in MARKS)]
    groups: list[tuple[str, tuple[str, ...]]] = [(kind, (kind,)) for kind in KINDS]
    groups += [("thread+log", ("thread", "log")), ("all", KINDS)]
    for name, kinds in groups:
        marks = Counter(one.mark for one in scored if one.kind in kinds)
        total = sum(marks.values())
        lines.append(f"{name:<10}{total:>6}" + "".join(f"{marks[m]:>13}" for m in MARKS))
    lines.append(f"right on thread+log: {100 * share(scored):.1f} %")
    known = [one.family for one in scored if one.family is not None]
    lines.append(f"right signature family: {sum(known)} of {len(known)}")
    lines.append("")
    return lines + [
        f"{one.mark:<12}{one.kind:<9}{one.name}: {one.wanted} <- {one.got}"
        for one in scored
        if one.mark not in {"right", "not scored"}
    ]


def share(scored: Iterable[Scored]) -> float:
    """Return the share of right answers where the answer is established."""
    sure = [s for s in scored if s.kind in {"thread", "log"} and s.mark != "not scored"]
    return sum(s.mark == "right" for s in sure) / len(sure) if sure else 0.0


def run(directory: Path) -> list[Scored]:
    """Explain the log of every case below a directory; nothing else of it is looked at."""
    found: list[Scored] = []
    for path in sorted(directory.glob("*.json")):
        case = json.loads(path.read_text())
        found.append(score(case, explain_text(case["log"]).verdict))
    return found


def main(argv: Sequence[str]) -> int:
    """Print the table; exit 2 when there is nothing to score."""
    scored = run(Path(argv[0])) if argv else []
    if not scored:
        sys.stderr.write("usage: python -m unstuck.show.score DIR (with *.json cases in it)\n")
        return 2
    sys.stdout.write("\n".join(table(scored)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
