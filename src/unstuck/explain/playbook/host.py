"""The process or its machine: stopped, slow, starved, locked up, broken."""

from unstuck.explain.playbook.facts import Advice, Facts


def process_stopped(facts: Facts) -> Advice:
    """Let it go on, then find who stopped it."""
    if facts.says("traced", "debugger", "tracing stop", "ptrace"):
        first = facts.on_host(
            f"grep TracerPid /proc/{facts.pid}/status", "the debugger that holds it; detach it"
        )
    else:
        first = _go_on(facts)
    return Advice(
        do=(
            first,
            "find what stopped it: Ctrl-Z in its terminal, a scheduler that suspends jobs, "
            "a checkpointing tool, a frozen cgroup",
        ),
        dont=(
            facts.no_longer_timeout(f"a stopped process never reaches {facts.op}"),
            "do not kill another worker and let torchrun restart the group: it waits 30 s for "
            f"the stopped one; end {facts.who} with SIGKILL first",
        ),
    )


def straggler(facts: Facts) -> Advice:
    """See what takes its time, then whether the machine is the reason."""
    return Advice(
        do=(
            facts.on_host(f"py-spy record -d 20 -o slow.svg --pid {facts.pid}", "where it goes"),
            facts.on_host("nvidia-smi -q -d PERFORMANCE,CLOCK", "throttled by heat or power"),
            f"run the same rank on another machine: if the slowness stays with {facts.host}, "
            "exclude the machine; if it moves along, look at the rank's data",
        ),
        dont=(
            "do not raise the timeout: every step takes as long as the slowest rank",
            "do not profile the collectives of the other ranks: their time in them is waiting",
        ),
    )


def resource_contention(facts: Facts) -> Advice:
    """Find who else uses the machine."""
    return Advice(
        do=(
            facts.on_host("top -b -n 1 | head -20", "who else runs there"),
            facts.on_host("grep . /proc/pressure/*", "short of cpu, memory or io"),
            "give each rank its own cores: OMP_NUM_THREADS times ranks, plus DataLoader "
            "workers, should not exceed the cores",
        ),
        dont=(
            "do not add DataLoader workers: they compete for the same cores",
            "do not raise the timeout: the job would go on as slowly as now",
        ),
    )


def host_deadlock(facts: Facts) -> Advice:
    """Choose by what the rank is locked up in."""
    if facts.says("gil"):
        return _gil(facts)
    if facts.says("dataloader", "data loader", "_next_data", "loader worker"):
        return _dataloader(facts)
    if facts.says("uninterruptible", "state d", "disk", "nfs"):
        return _kernel_io(facts)
    return _lock(facts)


def hardware_fault(facts: Facts) -> Advice:
    """Confirm in the kernel log, then take the machine out."""
    return Advice(
        do=(
            facts.on_host("dmesg -T | grep -iE 'xid|nvrm|aer|mce|i/o error'", "what broke"),
            f"take it out: `scontrol update nodename={facts.host} state=drain reason=hardware`, "
            "or exclude it at the next start",
            f"go on from the last checkpoint without {facts.host}",
        ),
        dont=(
            "do not restart on the same machine: the fault is still there",
            "do not reinstall torch or the driver before the kernel log was read",
        ),
    )


def _go_on(facts: Facts) -> str:
    culprits = facts.verdict.culprits
    here = [str(c.pid) for c in culprits if c.pid and c.host == facts.first.host]
    why = "they go on where they stopped" if facts.several else "it goes on where it stopped"
    if any(c.host != facts.first.host for c in culprits):
        why += "; the same on the other hosts"
    return facts.on_host(f"kill -CONT {' '.join(here) or facts.pid}", why)


def _gil(facts: Facts) -> Advice:
    return Advice(
        do=(
            facts.on_host(f"py-spy dump --native --pid {facts.pid}", "which call holds the GIL"),
            f"make that call{facts.place} release the GIL, or move it to another process",
            facts.on_host(f"kill -9 {facts.pid}", "to end it now; it does not react to less"),
        ),
        dont=(
            "do not wait for Ctrl-C or SIGTERM: Python handlers cannot run while the GIL is held",
            facts.no_longer_timeout(),
        ),
    )


def _dataloader(facts: Facts) -> Advice:
    return Advice(
        do=(
            facts.on_host(
                f"ps --ppid {facts.pid} -o pid,stat,wchan:20,cmd", "its workers: alive, in what"
            ),
            "run once with num_workers=0; if that helps, workers lock up after fork: "
            "use multiprocessing_context='forkserver'",
            "give DataLoader a timeout (for example timeout=120), so that it raises instead",
        ),
        dont=(
            "do not add workers: each is one more that can lock up",
            facts.no_longer_timeout(),
        ),
    )


def _kernel_io(facts: Facts) -> Advice:
    return Advice(
        do=(
            facts.on_host(f"cat /proc/{facts.pid}/stack", "as root: what the kernel waits for"),
            facts.on_host("dmesg -T | tail -50", "disk or file server errors"),
            "check the file server or disk that it reads or writes" + facts.place,
        ),
        dont=(
            "do not expect kill -9 to work: the process ends only when the kernel call returns",
            facts.no_longer_timeout(),
        ),
    )


def _lock(facts: Facts) -> Advice:
    return Advice(
        do=(
            facts.on_host(f"py-spy dump --locals --pid {facts.pid}", "all threads: who has it"),
            f"release the lock on every path that leads to the wait{facts.place}, or give "
            "acquire a timeout",
            "if it is taken in a child process, do not fork while threads run: "
            "use the spawn or forkserver start method",
        ),
        dont=(
            facts.no_longer_timeout(),
            "do not add a barrier before it: the rank would still never leave the lock",
        ),
    )
