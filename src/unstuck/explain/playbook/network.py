"""Between the machines: joining, the store, the links, lost nodes."""

from unstuck.explain.playbook.facts import Advice, Facts

_IF_IT_STAYS_CUT = (
    "if it is back within minutes, a gloo job goes on by itself; if not, end one side and go on "
    "from the checkpoint with the other"
)
_BOTH_SIDES_LIVE = "do not restart one side only: the other lives and may write the same files"


def partition(facts: Facts) -> Advice:
    """Look at the link; decide which side goes on."""
    verdict = facts.verdict
    if verdict.until:
        return _healed(facts)
    if verdict.cut:
        return _between(facts, verdict.cut[0].source, verdict.cut[0].target)
    return Advice(
        do=(
            f"from another host: `ping -c 3 {facts.address}`, `ss -tin dst {facts.address}`",
            facts.on_host("ip -s link", "link down, errors, drops; then the switch"),
            _IF_IT_STAYS_CUT,
        ),
        dont=(facts.no_longer_timeout("nothing crosses a cut link"), _BOTH_SIDES_LIVE),
    )


def _between(facts: Facts, source: str, target: str) -> Advice:
    one_way = not any(cut.source == target for cut in facts.verdict.cut)
    counters = "sent but not received" if one_way else "errors, drops; then the switch"
    return Advice(
        do=(
            f"on {source}: `ping -c 3 {target}`; on {target}: `ping -c 3 {source}`",
            f"on both: `ip -s link` ({counters}), and firewall rules set since the start",
            _IF_IT_STAYS_CUT,
        ),
        dont=(facts.no_longer_timeout("nothing crosses a cut link"), _BOTH_SIDES_LIVE),
    )


def _healed(facts: Facts) -> Advice:
    verdict = facts.verdict
    seconds = max((cut.seconds for cut in verdict.cut), default=0.0)
    named = verdict.culprits or not verdict.cut
    host = facts.address if named else verdict.cut[0].source
    why = f"on {host}: `dmesg -T | grep -i link` (why it was cut), then the switch"
    drain = f"do not drain {host}: the node did not fail, its network did"
    if not verdict.victims:
        return Advice(
            do=("nothing for the job: it goes on and has lost nothing but time", why),
            dont=(drain, "do not restart it: every rank is moving"),
        )
    return Advice(
        do=(
            f"give it about {max(seconds, 5.0):.0f} s more: gloo's connections outlive a cut of "
            "minutes, TCP only resends ever more rarely",
            "if a rank has timed out, or all still wait after that: restart from the checkpoint",
            why,
        ),
        dont=(
            drain,
            "do not restart at once: the job may go on by itself and lose nothing",
        ),
    )


def node_failure(facts: Facts) -> Advice:
    """Confirm it, then go on without the machine."""
    return Advice(
        do=(
            f"`ping -c 3 {facts.address}`; no answer: its console, `sinfo -R -n {facts.addresses}`",
            f"go on without it: `sbatch --exclude={facts.addresses}` or --nnodes=MIN:MAX",
            f"read its kernel log before {facts.host} takes ranks again",
        ),
        dont=(
            "do not wait for torchrun: nodes that fell silent went unnoticed in our tests",
            "do not look for the fault in the ranks that complain: they lost a peer",
        ),
    )


def never_joined(facts: Facts) -> Advice:
    """Find the ranks that did not start, cannot reach the others, or do something else first."""
    if facts.does("ended successfully"):
        return _ended_before_joining(facts)
    if facts.first.pid:
        return _not_there_yet(facts)
    return Advice(
        do=(
            f"see in the launcher's log on {facts.host} whether {facts.who} was started",
            "compare MASTER_ADDR, MASTER_PORT, WORLD_SIZE, rendezvous id on all hosts",
            facts.on_host("nc -vz $MASTER_ADDR $MASTER_PORT", "while rank 0 listens"),
        ),
        dont=(
            facts.no_longer_timeout("a rank that was not started never comes"),
            "do not raise --max-restarts: the next attempt waits for the same rank",
        ),
    )


def _ended_before_joining(facts: Facts) -> Advice:
    return Advice(
        do=(
            f"find the way out that {facts.who} took before init_process_group: a return, "
            "sys.exit, an `if` on the rank",
            f"read the last lines that {facts.who} printed on {facts.host}",
            "start as many ranks as join: --nproc-per-node, --nnodes",
        ),
        dont=(
            facts.no_longer_timeout("a process that has ended never comes"),
            "do not raise --max-restarts: the next attempt takes the same way out",
        ),
    )


def _not_there_yet(facts: Facts) -> Advice:
    return Advice(
        do=(
            facts.on_host(f"py-spy dump --pid {facts.pid}", "twice: does the line move"),
            f"if it does not: see what {facts.who} waits for{facts.place}, and limit that wait",
            "if it does: do that work before the launch, or on every rank alike",
        ),
        dont=(
            "do not look at addresses and ports: its process runs and has not come to them yet",
            facts.no_longer_timeout("that helps only if the line moves"),
        ),
    )


def store_lost(facts: Facts) -> Advice:
    """Look at the process that held the store."""
    return Advice(
        do=(
            f"read why the store's process ended: last lines of {facts.who} on {facts.host}",
            facts.on_host("dmesg -T | grep -i 'killed process'", "memory killer"),
            "restart the job: without the store no group can be made again",
        ),
        dont=(
            "do not retry store calls: get and wait ignore their timeout when the "
            "server does not answer",
            "do not debug `Broken pipe` on the other ranks: they lost the store",
        ),
    )


def transport_stall(facts: Facts) -> Advice:
    """All have issued the operation: look between the machines."""
    return Advice(
        do=(
            "on each host: `ss -tin | grep -B1 retrans` (who resends, and to whom)",
            "with jumbo frames, between hosts: `ping -M do -s 8972 -c 3 <host>`",
            "with NCCL: run nccl-tests there; if they hang too, it is the fabric",
        ),
        dont=(
            f"do not look for a guilty rank: all of them issued this {facts.stuck_op}",
            "do not keep NCCL_P2P_DISABLE=1 if it helps: slow, and the fault stays",
        ),
    )


def misconfiguration(facts: Facts) -> Advice:
    """Check the address and the interface each host uses."""
    return Advice(
        do=(
            facts.on_host("getent hosts $(hostname)", "must not be 127.x"),
            "set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME to an interface that the "
            "others reach (`ip -br addr`)",
            "let all ports pass between the hosts: gloo and NCCL choose at random",
        ),
        dont=(
            "do not set NCCL_IB_DISABLE=1: the socket interface stays the same",
            "do not exclude interfaces (`^lo,docker`): bridges not named stay in",
        ),
    )
