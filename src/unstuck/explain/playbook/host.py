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
            "find what stopped it: Ctrl-Z, a suspending scheduler, a cgroup freezer",
        ),
        dont=(
            facts.no_longer_timeout(f"a stopped process issues no {facts.stuck_op}"),
            "do not leave it to torchrun to restart: it waits 30 s for a stopped worker; "
            f"`kill -9 {facts.pid}` first",
        ),
    )


def straggler(facts: Facts) -> Advice:
    """See what takes its time, then whether the machine is the reason."""
    return Advice(
        do=(
            facts.on_host(f"py-spy record -d 20 -o slow.svg --pid {facts.pid}"),
            facts.on_host("nvidia-smi -q -d PERFORMANCE", "throttled by heat or power"),
            f"run the rank elsewhere: if {facts.host} stays slow, exclude it; if the rank "
            "does, look at its data",
        ),
        dont=(
            "do not raise the timeout: every step takes as long as the slowest rank",
            "do not profile the others' collectives: their time in them is waiting",
        ),
    )


def resource_contention(facts: Facts) -> Advice:
    """Find who else uses the machine."""
    return Advice(
        do=(
            facts.on_host("top -b -n 1 | head -20", "who else runs there"),
            facts.on_host("grep . /proc/pressure/*", "short of cpu, memory or io"),
            "give ranks their own cores: lower OMP_NUM_THREADS or the loader workers",
        ),
        dont=(
            "do not add DataLoader workers: they compete for the same cores",
            "do not raise the timeout: the job would go on as slowly as now",
        ),
    )


def host_deadlock(facts: Facts) -> Advice:
    """Choose by what the rank is locked up in."""
    if facts.does("the gil", "holds gil"):
        return _gil(facts)
    if facts.does("dataloader", "_next_data", "_try_get_data"):
        return _dataloader(facts)
    if facts.does("uninterruptible", "disk", "file system"):
        return _kernel_io(facts)
    if facts.does("waits for data", "a pipe", "a socket", "a child process"):
        return _other_process(facts)
    return _lock(facts)


def hardware_fault(facts: Facts) -> Advice:
    """Confirm in the kernel log, then take the machine out."""
    return Advice(
        do=(
            facts.on_host("dmesg -T | grep -iE 'xid|nvrm|aer|mce|i/o error'", "what broke"),
            f"go on from the last checkpoint without {facts.host}",
            f"`scontrol update nodename={facts.addresses} state=drain reason=hardware`",
        ),
        dont=(
            "do not restart on the same machine: the fault is still there",
            "do not reinstall torch or the driver first: the kernel log says what broke",
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
            facts.on_host(f"kill -9 {facts.pid}", "ends it now; less does not"),
        ),
        dont=(
            "do not wait for Ctrl-C or SIGTERM: no Python handler runs without the GIL",
            facts.no_longer_timeout(),
        ),
    )


def _dataloader(facts: Facts) -> Advice:
    return Advice(
        do=(
            facts.on_host(f"ps --ppid {facts.pid} -o pid,stat,wchan:20,cmd", "its workers"),
            "run once with num_workers=0; if that helps, the workers lock up after "
            "fork: use multiprocessing_context='forkserver'",
            "give DataLoader a timeout (say timeout=120): then it raises instead",
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
            "do not expect kill -9 to work: it acts when the kernel call returns",
            facts.no_longer_timeout(),
        ),
    )


def _other_process(facts: Facts) -> Advice:
    return Advice(
        do=(
            facts.on_host(f"ls -l /proc/{facts.pid}/fd", "which pipes and sockets it has"),
            facts.on_host(f"ps --ppid {facts.pid} -o pid,stat,wchan:20,cmd", "its children"),
            f"give the read{facts.place} a timeout, so that it raises instead",
        ),
        dont=(
            facts.no_longer_timeout(),
            "do not look at the collectives: this wait is outside of them",
        ),
    )


def _lock(facts: Facts) -> Advice:
    return Advice(
        do=(
            facts.on_host(f"py-spy dump --locals --pid {facts.pid}", "all threads: who has it"),
            f"release the lock on every path to the wait{facts.place}",
            "if a forked child waits, start it with spawn or forkserver instead",
        ),
        dont=(
            facts.no_longer_timeout(),
            "do not add a barrier before it: the rank would still never leave the lock",
        ),
    )
