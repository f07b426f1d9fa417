"""A rank died: by an exception, by a signal, for lack of memory."""

from collections.abc import Callable

from unstuck.explain.playbook.facts import Advice, Facts

_CASCADE = (
    "do not debug `Connection closed by peer` or `reset by peer` on the other ranks: "
    "they only report that {who} is gone"
)
_FIRST_LINES = "look at the last lines of {who}'s own stderr, before the other ranks' errors"


def process_crash(facts: Facts) -> Advice:
    """Choose by how the process ended."""
    for words, advice in _BY_ENDING:
        if facts.says(*words):
            return advice(facts)
    return _exception(facts) if facts.says("raised", "error", "exception") else _exit_code(facts)


def out_of_memory(facts: Facts) -> Advice:
    """Tell memory of the host from memory of the device."""
    if facts.says("cuda out of memory", "outofmemoryerror", "device memory", "gpu memory"):
        return _device_memory(facts)
    return Advice(
        do=(
            facts.on_host("dmesg -T | grep -i 'killed process'", "how much it held when killed"),
            "give each rank more host memory (Slurm: --mem or --mem-per-cpu; containers: the "
            "memory limit), or start fewer DataLoader workers: each holds a copy",
            "watch its memory over a few epochs; if it grows in each, look for a list that keeps "
            "tensors or batches",
        ),
        dont=(
            "do not lower the GPU batch size first: the kernel killed it for host memory",
            "do not call empty_cache or gc.collect every step: they free nothing that is in use",
        ),
    )


def _device_memory(facts: Facts) -> Advice:
    return Advice(
        do=(
            f"use less device memory on {facts.who}{facts.place}: smaller batch, shorter "
            "sequences, or checkpointed activations",
            "if only this rank ran out, its input was larger: bucket or cap the lengths",
            facts.on_host("nvidia-smi", "is another process on the same device"),
        ),
        dont=(
            "do not catch the error and skip the batch on this rank only: the others would wait "
            "for it in the next collective",
            _CASCADE.format(who=facts.who),
        ),
    )


def _exception(facts: Facts) -> Advice:
    return Advice(
        do=(
            f"fix what {facts.who} raised{facts.place}; the other ranks only wait for it",
            f"if the others pass that line, look at the data of {facts.who} first",
            "keep every rank's stderr next time: `torchrun --log-dir logs -r 3 -t 3 ...`",
        ),
        dont=(
            _CASCADE.format(who=facts.who),
            "do not catch it and skip the batch on one rank only: that rank would be one "
            "collective behind the others",
        ),
    )


def _exit_code(facts: Facts) -> Advice:
    return Advice(
        do=(
            _FIRST_LINES.format(who=facts.who),
            "keep every rank's stderr next time: `torchrun --log-dir logs -r 3 -t 3 ...`",
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
            "ask the scheduler whether a limit was hit: `sacct -j <job> -o JobID,State,MaxRSS`",
            "if neither knows, somebody sent SIGKILL: a clean-up script, a watchdog, a person",
        ),
        dont=(
            _CASCADE.format(who=facts.who),
            "do not lower the GPU batch size first: a full device raises an exception, it does "
            "not end in SIGKILL",
        ),
    )


def _segfault(facts: Facts) -> Advice:
    return Advice(
        do=(
            "run again with `PYTHONFAULTHANDLER=1`: it prints the Python line that crashed",
            "if TORCH_DISTRIBUTED_DEBUG=DETAIL is set, unset it: with DDP over gloo, torch 2.13 "
            "crashes in the DDP constructor",
            facts.on_host(f"coredumpctl gdb {facts.pid}", "native stack, if cores are kept"),
        ),
        dont=(
            "do not switch on TORCH_DISTRIBUTED_DEBUG=DETAIL to learn more: it can be the crash",
            _CASCADE.format(who=facts.who),
        ),
    )


def _bus_error(facts: Facts) -> Advice:
    return Advice(
        do=(
            facts.on_host("df -h /dev/shm", "DataLoader workers share memory there"),
            "make it larger (docker: --shm-size=16g; Kubernetes: an emptyDir with "
            "medium Memory) or start fewer workers",
            facts.on_host("ls -la /dev/shm", "files of dead jobs may fill it"),
        ),
        dont=(
            "do not raise kernel.shmmax: it does not limit /dev/shm",
            _CASCADE.format(who=facts.who),
        ),
    )


def _aborted_at_exit(facts: Facts) -> Advice:
    return Advice(
        do=(
            "call `torch.distributed.destroy_process_group()` as the last line of the script, "
            "on every rank",
            f"check that {facts.who} had finished its work: this abort comes while leaving",
        ),
        dont=(
            "do not look for a crash in the model: leaving without destroy_process_group "
            "aborts some clean runs of torch 2.13",
            "do not restart the job for it alone: the results were complete",
        ),
    )


def _aborted(facts: Facts) -> Advice:
    return Advice(
        do=(
            f"read the line above the abort in {facts.who}'s stderr: a C++ error says there "
            "what was wrong",
            "if it says `op.preamble.length <= op.nbytes`, the ranks gave tensors of different "
            "size to one collective: compare shapes",
            "if it is torch's own watchdog, this rank is a victim: look for a rank that did "
            "not complain",
        ),
        dont=(
            _CASCADE.format(who=facts.who),
            "do not wrap it in try/except: an abort cannot be caught in Python",
        ),
    )


def _terminated(facts: Facts) -> Advice:
    return Advice(
        do=(
            "find who sent SIGTERM: `scontrol show job <job>` for a time limit or preemption, "
            "or the launcher after another rank failed",
            "look for the first rank that failed before this moment",
        ),
        dont=(
            f"do not look for the fault in {facts.who}: it was told to end",
            "do not raise max-restarts for it: a time limit or preemption comes again",
        ),
    )


def _hung_up(facts: Facts) -> Advice:
    return Advice(
        do=(
            "start the job inside tmux or screen, or as a job of the scheduler: the terminal "
            "that started it was closed",
        ),
        dont=(
            "do not rely on nohup alone: torchrun installs its own SIGHUP handler and ends",
            f"do not look for the fault in {facts.who}: it was told to end",
        ),
    )


_BY_ENDING: tuple[tuple[tuple[str, ...], Callable[[Facts], Advice]], ...] = (
    (
        ("terminate called without an active exception", "while leaving", "at exit"),
        _aborted_at_exit,
    ),
    (("sigkill", "signal 9", "code -9"), _killed),
    (("sigsegv", "signal 11", "segmentation"), _segfault),
    (("sigbus", "signal 7", "bus error"), _bus_error),
    (("sigabrt", "signal 6", "code -6", "aborted"), _aborted),
    (("sigterm", "signal 15"), _terminated),
    (("sighup", "signal 1 ", "signal 1)"), _hung_up),
)
