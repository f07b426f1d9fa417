"""A rank died: by an exception, by a signal, for lack of memory."""

from collections.abc import Callable

from unstuck.explain.playbook.facts import Advice, Facts

_CASCADE = "do not debug `Connection closed by peer` on others: it means {who} died"
_FIRST_LINES = "look at the last lines of {who}'s own stderr, before the other ranks' errors"


def process_crash(facts: Facts) -> Advice:
    """Choose by how the process ended."""
    if facts.does("bus error"):
        return _bus_error(facts)
    if facts.first.doing.startswith(("raised", "failed with")):
        return _exception(facts)
    for words, advice in _BY_ENDING:
        if facts.does(*words):
            return advice(facts)
    return _exit_code(facts)


def out_of_memory(facts: Facts) -> Advice:
    """Tell memory of the host from memory of the device, and a kill from a refusal."""
    if facts.does("cuda out of memory", "outofmemoryerror", "device memory", "gpu memory"):
        return _device_memory(facts)
    if facts.first.doing.startswith(("raised", "failed with")):
        look = facts.on_host("free -h; ulimit -v; df -h /dev/shm", "what is short")
    else:
        look = facts.on_host("dmesg -T | grep -i 'killed process'", "what it held")
    return Advice(
        do=(
            look,
            "give it more host memory (Slurm: --mem; container: memory limit), or "
            "start fewer DataLoader workers",
            "if its memory grows with every epoch, look for a list that keeps tensors",
        ),
        dont=(
            "do not lower the GPU batch size first: it is the host that is short",
            "do not call empty_cache or gc.collect every step: they free nothing that is in use",
        ),
    )


def _device_memory(facts: Facts) -> Advice:
    return Advice(
        do=(
            f"use less device memory{facts.place}: smaller batch, shorter sequences",
            "if only this rank ran out, its input was larger: cap the lengths",
            facts.on_host("nvidia-smi", "is another process on the same device"),
        ),
        dont=(
            "do not catch it and skip the batch on this rank only: the others would "
            "wait for it in the next collective",
            _CASCADE.format(who=facts.who),
        ),
    )


def _exception(facts: Facts) -> Advice:
    return Advice(
        do=(
            f"fix what {facts.who} raised{facts.place}; the others only wait for it",
            f"if the others pass that line, look at the data of {facts.who} first",
            "keep every stderr: `torchrun --log-dir logs -r 3 -t 3 ...`",
        ),
        dont=(
            _CASCADE.format(who=facts.who),
            "do not catch it and skip the batch on one rank only: the others would "
            "wait for it in the next collective",
        ),
    )


def _exit_code(facts: Facts) -> Advice:
    return Advice(
        do=(
            _FIRST_LINES.format(who=facts.who),
            "keep every stderr: `torchrun --log-dir logs -r 3 -t 3 ...`",
        ),
        dont=(
            _CASCADE.format(who=facts.who),
            "do not stop at torchrun's ChildFailedError: it wraps the worker's own error",
        ),
    )


def _killed(facts: Facts) -> Advice:
    return Advice(
        do=(
            facts.on_host("dmesg -T | grep -i 'killed process'", "was it the memory killer"),
            "or a limit of the scheduler: `sacct -j <job> -o JobID,State,MaxRSS`",
            "if neither, somebody sent it: a clean-up script, a watchdog, a person",
        ),
        dont=(
            _CASCADE.format(who=facts.who),
            "do not lower the GPU batch size: a full device raises, it does not kill",
        ),
    )


def _segfault(facts: Facts) -> Advice:
    known = facts.does("in this line")
    return Advice(
        do=(
            f"look at the library that is called{facts.place}: it is native code that crashed"
            if known
            else "run again with `PYTHONFAULTHANDLER=1`: it prints the line that crashed",
            "unset TORCH_DISTRIBUTED_DEBUG=DETAIL if set: with it, DDP over gloo crashes "
            "in torch 2.13",
            facts.on_host(f"coredumpctl gdb {facts.pid}", "native stack, if cores are kept"),
        ),
        dont=(
            "do not set TORCH_DISTRIBUTED_DEBUG=DETAIL to learn more: it can be the crash",
            _CASCADE.format(who=facts.who),
        ),
    )


def _bus_error(facts: Facts) -> Advice:
    return Advice(
        do=(
            facts.on_host("df -h /dev/shm", "DataLoader workers share memory there"),
            "make it larger (docker: --shm-size=16g) or start fewer workers",
            facts.on_host("ls -la /dev/shm", "files of dead jobs may fill it"),
        ),
        dont=(
            "do not raise kernel.shmmax: it does not limit /dev/shm",
            _CASCADE.format(who=facts.who),
        ),
    )


def _aborted_at_exit(facts: Facts) -> Advice:
    mend = "end the script with `torch.distributed.destroy_process_group()` on all ranks"
    if facts.does("destroyed its groups"):
        mend = "if it comes again, end the script with `os._exit(0)`, after all is written"
    return Advice(
        do=(
            mend,
            f"check that {facts.who} had finished its work: this abort comes while leaving",
        ),
        dont=(
            "do not look for a crash in the model: torch 2.13 aborts some clean runs while "
            "they leave",
        ),
    )


def _aborted(facts: Facts) -> Advice:
    return Advice(
        do=(
            f"read the line above the abort in {facts.who}'s stderr: it says why",
            "`op.preamble.length <= op.nbytes` there: the ranks gave one collective "
            "tensors of different size",
            "torch's watchdog there: it is a victim; look for the rank that is silent",
        ),
        dont=(
            _CASCADE.format(who=facts.who),
            "do not wrap it in try/except: an abort cannot be caught in Python",
        ),
    )


def _terminated(facts: Facts) -> Advice:
    return Advice(
        do=(
            "a time limit or preemption sends SIGTERM: `scontrol show job <job>`",
            "so does the launcher when a rank fails: look for the first that did",
        ),
        dont=(
            f"do not look for the fault in {facts.who}: it was told to end",
            "do not raise --max-restarts: a time limit or preemption comes again",
        ),
    )


def _hung_up(facts: Facts) -> Advice:
    return Advice(
        do=("start it in tmux or as a batch job: the terminal it began in was closed",),
        dont=(
            "do not rely on nohup alone: torchrun handles SIGHUP itself, and ends",
            f"do not look for the fault in {facts.who}: it was told to end",
        ),
    )


_BY_ENDING: tuple[tuple[tuple[str, ...], Callable[[Facts], Advice]], ...] = (
    (
        ("terminate called without an active exception", "while leaving", "at exit"),
        _aborted_at_exit,
    ),
    (("sigkill", "signal 9", "code -9", "without a word"), _killed),
    (("sigsegv", "signal 11", "segmentation"), _segfault),
    (("sigbus", "signal 7"), _bus_error),
    (("sigabrt", "signal 6", "code -6", "aborted"), _aborted),
    (("sigterm", "signal 15"), _terminated),
    (("sighup", "signal 1 ", "signal 1)"), _hung_up),
)
