"""Another process of the rank's host: it holds a lock, does not read, or is stuck itself."""

import re

from unstuck.explain.playbook.facts import Advice, Facts

_PID = re.compile(r"(?:^|(?<=[\d)], ))\d+(?= \(|, |$)")
"""In a list of processes, `77 (python train.py), 78`: not the digits of a name."""


def advice(facts: Facts) -> Advice | None:
    """Advise about the process that a locked-up rank waits for, where one is known."""
    doing = facts.first.doing
    if found := re.search(r"child process (.+), which is stopped", doing):
        return _stopped_child(facts, _PID.findall(found[1]))
    if found := re.search(r"child process (\d+).*, which waits for a lock", doing):
        return _locked_child(facts, found[1])
    if re.match(r"waits for the lock of (a )?file", doing):
        return _file_lock(facts, re.search(r"held by process (\d+)", doing))
    if re.match(r"waits until .* is read", doing):
        return _full_pipe(facts, re.search(r"read by process (\d+)", doing))
    return None


def _stopped_child(facts: Facts, pids: list[str]) -> Advice:
    return Advice(
        do=(
            facts.on_host(f"kill -CONT {' '.join(pids)}", "the child goes on, and so does the job"),
            "find what stopped it: Ctrl-Z, a debugger, a scheduler that suspends",
            f"give the wait{facts.place} a timeout, so that it raises instead",
        ),
        dont=(
            facts.no_longer_timeout(),
            "do not look at the rank's own code first: it only waits for its child",
        ),
    )


def _locked_child(facts: Facts, pid: str) -> Advice:
    return Advice(
        do=(
            facts.on_host(f"py-spy dump --pid {pid}", "which lock the child waits for"),
            "start it with spawn or forkserver: a forked child inherits locks that are held, "
            "without the threads that would release them",
            "or fork before any thread is started",
        ),
        dont=(
            facts.no_longer_timeout(),
            "do not take a restart that works for a fix: it locks up again whenever a fork "
            "meets a held lock",
        ),
    )


def _file_lock(facts: Facts, holder: re.Match[str] | None) -> Advice:
    look = (
        facts.on_host(
            _process(holder[1]), "who holds it: when it lets go or ends, the rank goes on"
        )
        if holder
        else facts.on_host("lslocks", "who holds it")
    )
    return Advice(
        do=(
            look,
            f"take it with LOCK_NB and a limit{facts.place}, so that it raises instead",
            "let no rank hold it in a collective: the others may need it to come there",
        ),
        dont=(
            "do not delete the file: the lock belongs to what is open, not to the name",
            facts.no_longer_timeout(),
        ),
    )


def _full_pipe(facts: Facts, reader: re.Match[str] | None) -> Advice:
    look = (
        facts.on_host(_process(reader[1]), "the reader, and what it waits in")
        if reader
        else facts.on_host(f"ls -l /proc/{facts.pid}/fd", "which pipe; lsof says who reads it")
    )
    return Advice(
        do=(
            look,
            "keep reading what the other process writes too, or use communicate(): both may "
            "wait on a full pipe (64 KiB)",
            f"or write to a file{facts.place}: nobody has to read that in time",
        ),
        dont=(
            facts.no_longer_timeout(),
            "do not flush or write less at a time: the pipe is full until it is read",
        ),
    )


def _process(pid: str) -> str:
    return f"ps -o pid,stat,wchan:20,etime,cmd -p {pid}"
