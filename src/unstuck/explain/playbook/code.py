"""The training script: ranks that disagree, leave, or are busy with something else."""

from unstuck.explain.playbook.facts import Advice, Facts

_NO_SUCH_SETTING = (
    "do not set NCCL_TIMEOUT or TORCH_DIST_TIMEOUT: nothing reads them; the limit is the "
    "`timeout` of init_process_group"
)


def collective_mismatch(facts: Facts) -> Advice:
    """Make all ranks issue the same operation."""
    return Advice(
        do=(
            f"compare what {facts.who} calls{facts.place} with the other ranks: same "
            "operation, same shape, same dtype, on every rank of the group",
            "make the call unconditional: a rank with nothing to give passes zeros",
            "if a condition must decide, decide it with an all-reduced value",
        ),
        dont=(
            "do not add barriers around it: a barrier is one more collective to pair up wrongly",
            facts.no_longer_timeout("operations that differ never complete together"),
        ),
    )


def order_inversion(facts: Facts) -> Advice:
    """Make all ranks take the groups in one order."""
    return Advice(
        do=(
            f"issue the collectives of the two groups in the same order on all ranks; "
            f"{facts.who} has them the other way round{facts.place}",
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
            "give every rank the same number of batches: drop_last=True in the sampler, or "
            "stop all at the smallest count (all_reduce with MIN before the epoch)",
            "or wrap the loop in `with Join([model]):`; it does not cover collectives in "
            "forward, such as SyncBatchNorm",
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
            f"find why {facts.who} left{facts.place}: a return, break or sys.exit under a "
            "condition that holds only there",
            "decide to stop together: all_reduce the stop flag in every step",
            "call destroy_process_group only after the last collective of all ranks",
        ),
        dont=(
            "do not read `Connection closed by peer` on the others as a network fault: the "
            "peer went away by itself",
            facts.no_longer_timeout(f"{facts.who} has gone and will not come"),
        ),
    )


def busy_elsewhere(facts: Facts) -> Advice:
    """Wait or move the work; never cut it short blindly."""
    saving = facts.says("save", "checkpoint", "write")
    do = (
        facts.on_host(f"py-spy dump --pid {facts.pid}", "twice: does the line move"),
        f"let all ranks share that work{facts.place}, or do it before init_process_group or in "
        "a run of its own",
        "if it must stay, give the group that waits a `timeout` longer than the work; "
        "groups made by new_group need their own",
    )
    kill = f"do not kill {facts.who}: the file it writes would be cut short"
    barrier = "do not add a barrier before it: the others would wait there instead"
    return Advice(do=do, dont=(kill if saving else barrier, _NO_SUCH_SETTING))


def timeout_too_short(facts: Facts) -> Advice:
    """Set the limit above the real work, where it is read."""
    return Advice(
        do=(
            f"give init_process_group a `timeout` above what {facts.who} really needs"
            f"{facts.place}, and every new_group too: they do not take over the first one's",
            "or make the work shorter: cache it, shard it, or do it before the group exists",
        ),
        dont=(
            _NO_SUCH_SETTING,
            "do not pass timeout= to all_reduce: torch 2.13 takes it only for barriers",
        ),
    )


def software_bug(facts: Facts) -> Advice:
    """Compare versions, then look for the known fault."""
    return Advice(
        do=(
            "compare versions on all hosts: `python -m torch.utils.collect_env`; they must "
            "be equal, including NCCL and the driver",
            "search the library's issues for the first line of the error; the records below "
            "name what is known",
            "try the release before and after: a fault that goes away has a version",
        ),
        dont=(
            "do not tune timeouts or the network: the fault is in a library",
            "do not mix versions between hosts to find it: that makes faults of its own",
        ),
    )


def unknown(facts: Facts) -> Advice:
    """Keep the evidence and look by hand."""
    known = facts.first.rank >= 0
    look = (
        facts.on_host(f"py-spy dump --pid {facts.pid}", f"what {facts.who} does")
        if known
        else "`py-spy dump --pid <pid>` for one rank of every host: the odd one out is the lead"
    )
    return Advice(
        do=(
            look,
            "read the last lines of every rank's stderr; the rank that did not complain counts",
            "keep the bundle: a newer unstuck may know more",
        ),
        dont=(
            "do not restart before the stacks were taken: they go with the processes",
            "do not raise the timeout yet: it hides the stall and does not explain it",
        ),
    )
