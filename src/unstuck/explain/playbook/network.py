"""Between the machines: joining, the store, the links, lost nodes."""

from unstuck.explain.playbook.facts import Advice, Facts


def partition(facts: Facts) -> Advice:
    """Look at the link; decide which side goes on."""
    return Advice(
        do=(
            f"from another host of the job: `ping -c 3 {facts.host}`, then "
            f"`ss -tin dst {facts.host}` (retransmits that grow: the path is cut)",
            facts.on_host("ip -s link", "link down, errors, drops; then the switch port"),
            "if the link does not come back, end the ranks of one side and go on from the "
            "checkpoint with the other",
        ),
        dont=(
            facts.no_longer_timeout("nothing crosses a cut link, however long they wait"),
            "do not restart only one side: the other still lives and may write the same files",
        ),
    )


def node_failure(facts: Facts) -> Advice:
    """Confirm it, then go on without the machine."""
    return Advice(
        do=(
            f"`ping -c 3 {facts.host}`; no answer: look at its console (`ipmitool sel list`) "
            f"or `sinfo -R -n {facts.host}`",
            f"go on without it: `sbatch --exclude={facts.host}`, or torchrun with --nnodes=MIN:MAX",
            f"do not let {facts.host} take ranks again before its log was read",
        ),
        dont=(
            "do not wait for the timeout: torchrun does not act on a lost node and the kernel "
            "keeps the connections for about 15 minutes",
            "do not look for the fault in the ranks that complain: they lost their peer",
        ),
    )


def never_joined(facts: Facts) -> Advice:
    """Find the ranks that did not start, or cannot reach the others."""
    return Advice(
        do=(
            f"see whether {facts.who} was started and how it ended: the launcher's log on "
            f"{facts.host}",
            "compare MASTER_ADDR, MASTER_PORT, WORLD_SIZE (or the rendezvous id) on all hosts; "
            "one that differs never meets the others",
            facts.on_host("nc -vz $MASTER_ADDR $MASTER_PORT", "while rank 0 is listening"),
        ),
        dont=(
            facts.no_longer_timeout("a rank that was not started does not come later"),
            "do not raise --max-restarts: the next attempt waits for the same rank",
        ),
    )


def store_lost(facts: Facts) -> Advice:
    """Look at the process that held the store."""
    return Advice(
        do=(
            f"look at the process that held the store ({facts.who} on {facts.host}): "
            "its last lines say why it ended",
            facts.on_host("dmesg -T | grep -i 'killed process'", "was it the memory killer"),
            "restart the job: groups cannot be made again without the store",
        ),
        dont=(
            "do not retry the store calls: TCPStore ignores its timeout when the server does "
            "not answer",
            "do not debug `Broken pipe` on the other ranks: they lost the store",
        ),
    )


def transport_stall(facts: Facts) -> Advice:
    """All have issued the operation: look between the machines."""
    where = facts.verdict.stuck
    group = f"the {where.group_size} ranks of the group" if where else "the ranks"
    return Advice(
        do=(
            f"on the hosts of {group}: `ss -tin | grep -B1 retrans` (a pair that resends is "
            "the link to look at)",
            "between each two of them: `ping -M do -s 8972 -c 3 <host>` if the network uses "
            "jumbo frames; else `ping -c 3 <host>`",
            "with NCCL, run nccl-tests on the same hosts: if they hang too, it is the fabric "
            "(P2P, ACS, IOMMU), not the script",
        ),
        dont=(
            f"do not look for a guilty rank in the script: all of them issued {facts.op}",
            "do not leave NCCL_P2P_DISABLE=1 on if it helps: it is slow, and names the fault",
        ),
    )


def misconfiguration(facts: Facts) -> Advice:
    """Check the address and the interface each host uses."""
    return Advice(
        do=(
            facts.on_host("getent hosts $(hostname)", "must not be 127.x when hosts are several"),
            "set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME to the interface the others can "
            "reach (`ip -br addr` lists them)",
            "let the firewall pass all ports between the hosts: gloo and NCCL choose theirs "
            "at random",
        ),
        dont=(
            "do not set NCCL_IB_DISABLE=1: it does not change which socket interface is used",
            "do not exclude interfaces one by one (`^lo,docker`): bridges you did not name stay",
        ),
    )
