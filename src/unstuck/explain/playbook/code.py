"""The training script: ranks that disagree, leave, or are busy with something else."""

from unstuck.explain.playbook.facts import Advice, Facts
from unstuck.model.verdict import Confidence

_NO_SUCH_SETTING = "do not set NCCL_TIMEOUT or TORCH_DIST_TIMEOUT: nothing reads them"


def collective_mismatch(facts: Facts) -> Advice:
    """Make all ranks issue the same operation."""
    if "new_group" in facts.first.doing:
        return _new_group(facts)
    if facts.does("nobody answers", "counterpart of a message"):
        return _message(facts)
    if facts.verdict.culprits:
        compare = f"compare the call of {facts.who}{facts.place} with the others'"
    else:
        compare = "print what each rank is about to issue there"
    return Advice(
        do=(
            f"{compare}: all ranks must issue the same operation, shape and dtype",
            "make the call unconditional: a rank with nothing to give passes zeros",
            "if a condition must decide, decide it on an all-reduced value",
        ),
        dont=(
            "do not add barriers around it: they are collectives that mismatch too",
            facts.no_longer_timeout("operations that differ never complete"),
        ),
    )


def _new_group(facts: Facts) -> Advice:
    return Advice(
        do=(
            "call new_group on every rank, in one order, also where the rank is no member; "
            f"{facts.who} went another way{facts.place}",
            "or pass use_local_synchronization=True: then only the members call it",
        ),
        dont=(
            "do not add a barrier around it: who skips new_group skips that too",
            facts.no_longer_timeout("a rank that does not call new_group never comes to it"),
        ),
    )


def _message(facts: Facts) -> Advice:
    return Advice(
        do=(
            f"read the message of {facts.who}{facts.place} beside its peer's code: each send "
            "needs one recv with the same two ranks, tag and group",
            "let one condition, the same on both ranks, decide whether it is exchanged",
        ),
        dont=(
            "do not make it isend or irecv instead: without a counterpart it never completes",
            facts.no_longer_timeout("nobody posts the other side by waiting"),
        ),
    )


def order_inversion(facts: Facts) -> Advice:
    """Make all ranks take the groups in one order."""
    if facts.verdict.confidence is Confidence.POSSIBLE:  # no order has a majority
        odd = f"compare {facts.who}"
    else:
        odd = f"{facts.who} {'have' if facts.several else 'has'} the other one"
    return Advice(
        do=(
            f"issue the two groups' collectives in one order on all ranks; {odd}{facts.place}",
            "if two threads issue them, let one thread do it",
        ),
        dont=(
            "do not add a barrier between them: ranks stuck in the first never reach it",
            facts.no_longer_timeout("each side waits for the other, for ever"),
        ),
    )


def uneven_work(facts: Facts) -> Advice:
    """Give all ranks the same number of steps."""
    return Advice(
        do=(
            "give all ranks the same number of batches: drop_last=True in the sampler, "
            "or all_reduce the count with MIN and stop there",
            "or loop inside `with Join([model]):` (not with SyncBatchNorm)",
            f"check how the data is split: {facts.who} ran out first",
        ),
        dont=(
            "do not add a barrier to the loop: the rank that ran out never comes to it",
            facts.no_longer_timeout(),
        ),
    )


def rank_left_early(facts: Facts) -> Advice:
    """Let all ranks leave together."""
    return Advice(
        do=(
            f"find why {facts.who} left{facts.place}: a return, break or exit that only it takes",
            "decide to stop together: all_reduce the stop flag in every step",
        ),
        dont=(
            "do not take `Connection closed by peer` for a network fault: the peer left",
            facts.no_longer_timeout(f"{facts.who} has gone and will not come"),
        ),
    )


def busy_elsewhere(facts: Facts) -> Advice:
    """Wait or move the work; never cut it short blindly."""
    from_log = bool(facts.verdict.records)  # it seldom tells who waited, or for whom
    if not facts.verdict.culprits and not from_log:
        return _all_idle()
    if not facts.verdict.victims and not from_log:
        return _lingers(facts)
    if facts.does("asleep"):
        return _asleep(facts)
    saving = facts.does("save(", "save_", "checkpoint", ".write(")
    do = (
        facts.on_host(f"py-spy dump --pid {facts.pid}", "twice: does the line move"),
        "share this work among the ranks, or do it before init_process_group",
        "or raise `timeout` in init_process_group and in every new_group",
    )
    kill = f"do not kill {facts.who}: the file it writes would be cut short"
    barrier = "do not add a barrier before it: the others would wait there instead"
    return Advice(do=do, dont=(kill if saving else barrier, _NO_SUCH_SETTING))


def _all_idle() -> Advice:
    return Advice(
        do=(
            "see on each host whether the storage answers: `timeout 5 ls` in the data's folder",
            "read the kernel's log there: `dmesg -T | grep -iE 'nfs|lustre|i/o error'`",
            "give that wait a limit, so that it raises instead",
        ),
        dont=(
            "do not look for a guilty rank: none of them waits for another",
            "do not wait for a timeout of torch's: no collective is under way that could have one",
        ),
    )


def _lingers(facts: Facts) -> Advice:
    return Advice(
        do=(
            facts.on_host(f"py-spy dump --pid {facts.pid}", "twice: does the line move"),
            "give that wait a limit; end or join every thread and child before the script ends",
            f"once its files are complete: `kill {facts.pid}` ends the job",
        ),
        dont=("do not wait for torchrun: it waits for this rank without a limit",),
    )


def _asleep(facts: Facts) -> Advice:
    return Advice(
        do=(
            f"see what {facts.who} sleeps for at that line: a file, a service, a retry",
            "give that wait a limit, so that it raises instead",
            facts.on_host(f"py-spy dump --pid {facts.pid}", "all its threads"),
        ),
        dont=(
            "do not raise the timeout: the others would only wait longer",
            "do not add a barrier before it: the others would wait there instead",
        ),
    )


def timeout_too_short(facts: Facts) -> Advice:
    """Set the limit above the real work, where it is read."""
    return Advice(
        do=(
            f"raise `timeout` in init_process_group and each new_group above what {facts.who} "
            f"needs{facts.place}",
            "or make the work shorter: cache it, shard it, do it before the start",
        ),
        dont=(
            _NO_SUCH_SETTING,
            "do not pass timeout= to all_reduce: torch 2.13 takes it only for barriers",
        ),
    )


def software_bug(_facts: Facts) -> Advice:
    """Compare versions, then look for the known fault."""
    return Advice(
        do=(
            "compare `python -m torch.utils.collect_env` on all hosts: must be equal",
            "search the library's issues for the first line of the error",
            "try the release before and after: a fault that goes away has a version",
        ),
        dont=(
            "do not tune timeouts or the network: the fault is in a library",
            "do not mix versions between hosts to find it: that adds faults",
        ),
    )


def unknown(facts: Facts) -> Advice:
    """Keep the evidence and look by hand."""
    known = facts.first.rank >= 0
    look = (
        facts.on_host(f"py-spy dump --pid {facts.pid}", f"what {facts.who} does")
        if known
        else "`py-spy dump --pid <pid>` of one rank a host: look for the odd one out"
    )
    return Advice(
        do=(
            look,
            "read the end of all ranks' stderr; suspect the one that says nothing",
            "keep the bundle: a newer unstuck may know more",
        ),
        dont=(
            "do not restart before stacks are taken: they go with the processes",
            "do not raise the timeout yet: it hides the stall, it does not explain it",
        ),
    )
