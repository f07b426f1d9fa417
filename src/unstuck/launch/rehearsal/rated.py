"""From what the ranks of a rehearsal found to the lines of the table: pure functions."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import median

from unstuck.diagnose.text import ranks_text
from unstuck.model.health import Check, Rating
from unstuck.model.rehearsal import PairResult, RankReport

CLOCKS_AGREE = 0.5
"""Seconds. Derived: lines of logs of several machines are put in order by their time."""
FAR = 0.02
"""Seconds of a round trip that are not one data centre's. Tuned."""
SLOWER = 3.0
"""Times slower than the median of all: what is slow by comparison. Tuned."""
SLOW_LINK = 50e6
"""Bytes a second, for where there is nothing to compare with. Tuned: half of 1 Gbit/s."""
_MOST = 4


def rate(reports: Sequence[RankReport], world_size: int) -> list[Check]:
    """Judge what the ranks found.

    Example:
        rate(reports, world_size=16)
    """
    if not reports:
        return [Check("ranks", Rating.BAD, "no rank has started")]
    found = [_arrived(reports, world_size), *_problems(reports), _versions(reports)]
    pairs = [pair for report in reports for pair in report.pairs]
    if pairs:
        found += [_connections(pairs), _clocks(pairs), _bandwidth(pairs)]
    found += _reduces(reports)
    found += _computing(reports)
    return found


def _arrived(reports: Sequence[RankReport], world_size: int) -> Check:
    size = max(world_size, *(report.world_size for report in reports))
    met = [report for report in reports if report.stage not in ("start", "store")]
    missing = {rank for report in met for rank in report.missing}
    missing |= (
        {*range(size)} - {report.rank for report in reports} if len(reports) < size else set()
    )
    hosts = len({report.node for report in reports})
    text = f"{size} on {hosts} machine{'s' if hosts > 1 else ''}"
    if not met:
        why = "none could connect to the store"
        return Check("ranks", Rating.BAD, f"{text}: {why}", "see the problems of the ranks below")
    if missing:
        who = ranks_text(missing)
        fix = "look at the output of the launcher on their machines; can they reach the store?"
        return Check("ranks", Rating.BAD, f"{text}: {who} did not arrive", fix)
    return Check("ranks", Rating.OK, f"{text}: every rank has met every other")


def _problems(reports: Sequence[RankReport]) -> list[Check]:
    by_text: dict[str, list[RankReport]] = defaultdict(list)
    for report in reports:
        for problem in report.problems:
            by_text[problem].append(report)
    return [
        Check(
            "problem",
            Rating.BAD,
            f"{ranks_text(one.rank for one in those)}: {text}",
            _fix(text),
            ", ".join(sorted({one.host for one in those})[:_MOST]),
        )
        for text, those in list(by_text.items())[: 2 * _MOST]
    ]


def _fix(problem: str) -> str:
    if "cannot be resolved" in problem:
        name = problem.partition(" ")[0]
        return f"add a line to /etc/hosts there: ADDRESS {name}; or set GLOO_SOCKET_IFNAME"
    if problem.startswith("connecting to the store"):
        return "is MASTER_ADDR:MASTER_PORT the first machine's, and open there?"
    if problem.startswith(("connecting all", "all_reduce")):
        return "see the connections above; gloo and NCCL use random high ports in both directions"
    return ""


def _versions(reports: Sequence[RankReport]) -> Check:
    names = sorted({name for report in reports for name in report.versions})
    odd: list[str] = []
    for name in names:
        counts = Counter(report.versions.get(name, "missing") for report in reports)
        if len(counts) > 1:
            usual = counts.most_common(1)[0][0]
            others = [r for r in reports if r.versions.get(name, "missing") != usual]
            there = others[0].versions.get(name, "missing")
            hosts = ", ".join(sorted({one.host for one in others})[:_MOST])
            odd.append(f"{name} is {there} on {hosts}, {usual} elsewhere")
    if odd:
        fix = "install the same versions everywhere"
        return Check("versions", Rating.BAD, "; ".join(odd), fix)
    shown = ", ".join(f"{name} {reports[0].versions.get(name, '')}" for name in names)
    return Check("versions", Rating.OK, f"the same everywhere: {shown}")


def _connections(pairs: Sequence[PairResult]) -> Check:
    failed = [pair for pair in pairs if pair.error]
    if failed:
        told = [f"{p.source} cannot reach {p.target} at {p.address}: {p.error}" for p in failed]
        more = f", and {len(told) - _MOST} more" if len(told) > _MOST else ""
        local = any(pair.address.startswith("127.") for pair in failed)
        fix = (
            "a name leads to 127.x there: mend /etc/hosts, or export GLOO_SOCKET_IFNAME"
            if local
            else "open all TCP ports between the machines: ranks listen on random high ones"
        )
        return Check("connections", Rating.BAD, "; ".join(told[:_MOST]) + more, fix)
    times = [pair.round_trip for pair in pairs]
    text = f"{len(pairs)} ways, round trip {_ms(median(times))}"
    far = [pair for pair in pairs if pair.round_trip > max(FAR, SLOWER * median(times))]
    if far:
        worst = max(far, key=lambda pair: pair.round_trip)
        text += f"; {worst.source} to {worst.target} {_ms(worst.round_trip)}"
        return Check("connections", Rating.WARNING, text, "are the machines in one network?")
    return Check("connections", Rating.OK, text)


def _clocks(pairs: Sequence[PairResult]) -> Check:
    seen = [pair for pair in pairs if not pair.error]
    if not seen:
        return Check("clocks", Rating.UNKNOWN, "no machine reached another one")
    worst = max(seen, key=lambda pair: abs(pair.clock_offset))
    if abs(worst.clock_offset) < CLOCKS_AGREE:
        return Check("clocks", Rating.OK, f"agree within {_ms(abs(worst.clock_offset))}")
    way = "ahead of" if worst.clock_offset > 0 else "behind"
    text = f"{worst.target} is {abs(worst.clock_offset):.1f} s {way} {worst.source}"
    return Check("clocks", Rating.WARNING, text, "start chronyd or systemd-timesyncd on both")


def _bandwidth(pairs: Sequence[PairResult]) -> Check:
    measured = [pair for pair in pairs if pair.bandwidth]
    if not measured:
        return Check("bandwidth", Rating.UNKNOWN, "could not be measured")
    usual = median(pair.bandwidth for pair in measured)
    text = f"{_rate(usual)} between two machines"
    slow = [p for p in measured if p.bandwidth < usual / SLOWER or p.bandwidth < SLOW_LINK]
    if not slow:
        return Check("bandwidth", Rating.OK, text)
    told = ", ".join(
        f"{p.source} to {p.target} {_rate(p.bandwidth)}"
        for p in sorted(slow, key=lambda pair: pair.bandwidth)[:_MOST]
    )
    if name := _in_all(slow, measured):
        fix = f"{name} is at the end of every slow way: look at its cable, its port, its driver"
    else:
        fix = "the wrong interface? see GLOO_SOCKET_IFNAME; else look at the switch between them"
    return Check("bandwidth", Rating.WARNING, f"{text}; slow: {told}", fix)


def _in_all(slow: Sequence[PairResult], measured: Sequence[PairResult]) -> str:
    """Name the machine that has all of its ways slow, and nobody else has one without it."""
    ends = [{pair.source, pair.target} for pair in slow]
    shared = set[str].intersection(*ends)
    hosts = {name for pair in measured for name in (pair.source, pair.target)}
    if len(hosts) < 3 or len(slow) < 2 or len(shared) != 1:
        return ""
    return shared.pop()


def _reduces(reports: Sequence[RankReport]) -> list[Check]:
    times: dict[int, list[tuple[float, RankReport]]] = defaultdict(list)
    for report in reports:
        for one in report.reduces:
            times[one.size].append((one.seconds, report))
    expected = len(reports)
    found: list[Check] = []
    for size in sorted(times):
        seconds = [one for one, _ in times[size]]
        text = f"{_ms(max(seconds))} for 1 MB among {size} ranks"
        if len(seconds) < expected:
            lost = {r.rank for r in reports} - {r.rank for _, r in times[size]}
            text += f"; {ranks_text(lost)} did not come to its end"
            found.append(Check("all-reduce", Rating.BAD, text, "see the connections above"))
            continue
        usual = median(seconds)
        slow = {r.host for one, r in times[size] if one > SLOWER * usual and one > 0.1}
        rating = Rating.WARNING if slow else Rating.OK
        text += f"; slow on {', '.join(sorted(slow)[:_MOST])}" if slow else ""
        found.append(Check("all-reduce", rating, text))
    if not times and all(report.stage in ("met", "pairs") for report in reports):
        text = "did not come about"
        found.append(Check("all-reduce", Rating.BAD, text, "see the connections above"))
    return found


def _computing(reports: Iterable[RankReport]) -> list[Check]:
    by_node: dict[str, list[float]] = defaultdict(list)
    for report in reports:
        if report.compute:
            by_node[report.host].append(report.compute)
    if len(by_node) < 2:
        return []
    speeds = {host: median(several) for host, several in by_node.items()}
    usual = median(speeds.values())
    slow = {host: speed for host, speed in speeds.items() if speed < usual / SLOWER}
    if not slow:
        return [Check("computing", Rating.OK, f"{len(speeds)} machines are about equally fast")]
    told = ", ".join(f"{host} {usual / speed:.0f} times slower" for host, speed in slow.items())
    fix = "see what else runs there (top), and whether the cores are throttled"
    return [Check("computing", Rating.WARNING, told, fix)]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms" if seconds < 0.1 else f"{seconds:.2f} s"


def _rate(bandwidth: float) -> str:
    bits = bandwidth * 8
    return f"{bits / 1e9:.1f} Gbit/s" if bits >= 1e9 else f"{bits / 1e6:.1f} Mbit/s"
