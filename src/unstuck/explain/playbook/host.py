"""The process or its machine: stopped, slow, starved, locked up, broken."""

import re

from unstuck.explain.playbook import neighbour
from unstuck.explain.playbook.facts import Advice, Facts


def process_stopped(facts: Facts) -> Advice:
    """Let it go on, then find who stopped it."""
    if facts.says("traced", "debugger", "tracing stop", "ptrace"):
        first = facts.on_host(
            f"grep TracerPid /proc/{facts.pid}/status", "the debugger that holds it; detach it"
        )
    elif facts.does("freezer"):
        first = facts.on_host(
            f"cat /proc/{facts.pid}/cgroup",
            "the group that is frozen; `docker unpause`, or its scheduler, lets it go on",
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
    at = f" beyond the line{facts.place}" if facts.place else ""
    return Advice(
        do=(
            facts.on_host(
                f"py-spy record -d 20 -o slow.svg --pid {facts.pid}", f"what takes its time{at}"
            ),
            f"compare what {facts.who} is given with the others' share: samples, their length, "
            "work that only it does",
            f"run it on another machine: if {facts.host} stays slow, it is the machine (on a gpu "
            "`nvidia-smi -q -d PERFORMANCE` shows heat or power limits)",
        ),
        dont=(
            "do not raise the timeout: every step takes as long as the slowest rank",
            "do not tune the others' collectives: their time in them is waiting",
        ),
    )


def resource_contention(facts: Facts) -> Advice:
    """Choose by what is short: a quota, memory, a disk, or cores."""
    if facts.does("cpu limit"):
        return _quota(facts)
    if facts.does("memory"):
        return _memory(facts)
    if facts.does("disk"):
        return _disk(facts)
    if facts.does("virtual machines"):
        return _stolen(facts)
    taker = re.search(r"beside (.+?) \(pid (\d+)\)", facts.first.doing)
    return Advice(
        do=(
            facts.on_host(
                f"ps -o pid,user,etime,pcpu,cmd -p {taker[2]}",
                f"{taker[1]} competes for its core: stop it or move it",
            )
            if taker
            else facts.on_host("top -b -n 1 | head -20", "who else runs there; move it"),
            facts.on_host("grep . /proc/pressure/*", "short of cpu, memory or io"),
            "give ranks their own cores: taskset, lower OMP_NUM_THREADS, fewer loader workers",
        ),
        dont=(
            "do not add DataLoader workers: they compete for the same cores",
            "do not raise the timeout: the job would go on as slowly as now",
        ),
    )


def _quota(facts: Facts) -> Advice:
    return Advice(
        do=(
            facts.on_host(f"cat /proc/{facts.pid}/cgroup", "whose cpu limit it is under"),
            "raise that limit: cpu.max of the group, resources.limits.cpu of the pod, "
            "--cpus-per-task in Slurm",
            "or use fewer threads: lower OMP_NUM_THREADS and the loader workers to the limit",
        ),
        dont=(
            "do not add DataLoader workers: they use up the same limit sooner",
            "do not look for another process: the limit holds with idle cores beside it",
        ),
    )


def _memory(facts: Facts) -> Advice:
    return Advice(
        do=(
            facts.on_host("free -h; ps -eo pid,rss,cmd --sort=-rss | head", "who has the memory"),
            "load less at once on that host: fewer loader workers, smaller prefetch_factor",
            "raise the memory limit of its cgroup before the out-of-memory killer comes",
        ),
        dont=(
            "do not add DataLoader workers: each takes memory too",
            "do not raise the timeout: the job would go on as slowly as now",
        ),
    )


def _disk(facts: Facts) -> Advice:
    return Advice(
        do=(
            facts.on_host("iostat -x 1 5", "which disk is busy"),
            facts.on_host("iotop -b -n 3 -o", "as root: who reads and writes"),
            "read the data from a local disk or memory, and write checkpoints elsewhere",
        ),
        dont=(
            "do not add DataLoader workers: they queue at the same disk",
            "do not raise the timeout: the job would go on as slowly as now",
        ),
    )


def _stolen(facts: Facts) -> Advice:
    return Advice(
        do=(
            facts.on_host("vmstat 1 5", "column st: the time stolen"),
            f"move off {facts.host}, or to a machine type whose cores are not shared",
        ),
        dont=(
            "do not look for it inside the machine: its cores are given to another one",
            "do not raise the timeout: the job would go on as slowly as now",
        ),
    )


def host_deadlock(facts: Facts) -> Advice:
    """Choose by what the rank is locked up in."""
    if found := neighbour.advice(facts):
        return found
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
            "give the wait a limit where it can have one, so that it raises instead",
        ),
        dont=(
            facts.no_longer_timeout(),
            "do not add a barrier before it: the rank would still never leave the lock",
        ),
    )
