"""`unstuck attach`: a job that hangs now and that nobody prepared, looked at from outside."""

import sys
from collections.abc import Callable, Sequence

import click
import msgspec

from unstuck import durations
from unstuck.diagnose.text import ranks_text
from unstuck.errors import UserError, WorldError
from unstuck.observe.outside import other_hosts, rank_processes
from unstuck.observe.outside.rank_processes import RankProcess
from unstuck.pipelines import outside
from unstuck.pipelines.outside import Attached, Seen, Watch
from unstuck.show import attached as report
from unstuck.show.cli.options import FOUND, NOTHING, print_json


def _seconds(_ctx: click.Context, parameter: click.Parameter, value: str | None) -> float:
    seconds = durations.parse(value) if value is not None else 0.0
    if seconds is None or (value is not None and seconds <= 0):
        raise click.BadParameter(f"{value} is not a duration such as 5s or 2m", param=parameter)
    return seconds


@click.command(short_help="Look into a job that hangs now and was not started with unstuck.")
@click.argument("pids", metavar="[PID]...", nargs=-1, type=int)
@click.option("--all", "every", is_flag=True, help="Every job on this machine.")
@click.option("--job", metavar="ID", default="", help="Of torchrun, Slurm or PBS; or ADDR:PORT.")
@click.option("-H", "--host", "hosts", multiple=True, help="Look there too. May be repeated.")
@click.option(
    "--via",
    default=other_hosts.SSH,
    metavar="COMMAND",
    help="How to get to a host. [default: ssh {host}]",
)
@click.option("--stacks", is_flag=True, help="Print the stacks of all ranks, merged into a tree.")
@click.option("--native", is_flag=True, help="With C++ frames: stops each rank for a moment.")
@click.option(
    "--patience",
    metavar="TIME",
    callback=_seconds,
    help="How long a wait may last. [default: 20s]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--evidence", is_flag=True, help="Print what is seen here, for another attach.")
def attach(  # noqa: PLR0913, PLR0917 - one argument per option
    pids: tuple[int, ...],
    every: bool,
    job: str,
    hosts: tuple[str, ...],
    via: str,
    stacks: bool,
    native: bool,
    patience: float,
    as_json: bool,
    evidence: bool,
) -> int:
    """Say why a job hangs that is already running and was not started with unstuck.

    \b
    unstuck attach                    the job on this machine
    unstuck attach 4711               the job of this rank, or of this launcher
    unstuck attach --job 815          the job with this id
    unstuck attach -H node1 -H node2  also its ranks there, by ssh

    Nothing is started in the job, and without --native no process of it is stopped.
    Exits with 1 if a problem was found, 0 if the job makes progress, 2 if there is no such
    job, 3 if it may not be looked into.
    """
    local = _chosen(rank_processes.find(pids, job), every=every, remote=bool(hosts), job=job)
    if evidence:
        sys.stdout.buffer.write(msgspec.json.encode([Watch(r).seen() for r in local.values()]))
        return NOTHING
    far = _asked(hosts, via, job or next(iter(local), ""))
    answers = [_attach(ranks, far, patience, native=native) for ranks in local.values() or [[]]]
    if as_json:
        shown = [report.as_json(one, stacks=stacks) for one in answers]
        print_json(shown if every else shown[0])
    else:
        for one in answers:
            sys.stdout.write(report.render(sys.stdout, one, stacks=stacks))
    for one in answers:
        _refuse_if_blind(one)
    return FOUND if any(one.verdict for one in answers) else NOTHING


def _attach(
    ranks: Sequence[RankProcess], far: Callable[[], list[Seen]], patience: float, *, native: bool
) -> Attached:
    watch = Watch(ranks, native=native) if ranks else None
    return outside.judge(lambda: [*([watch.seen()] if watch else []), *far()], patience=patience)


def _asked(hosts: Sequence[str], via: str, job: str) -> Callable[[], list[Seen]]:
    """Return a function that looks at the other machines."""
    if not hosts:
        return list
    arguments = ["attach", "--evidence", *(("--job", job) if job else ())]

    def look() -> list[Seen]:
        found: list[Seen] = []
        for answer in other_hosts.ask(hosts, via, arguments):
            found += msgspec.json.decode(answer, type=list[Seen])
        return found

    return look


def _chosen(
    jobs: dict[str, list[RankProcess]], *, every: bool, remote: bool, job: str
) -> dict[str, list[RankProcess]]:
    if not jobs and not remote:
        named = f"of job {job} " if job else ""
        raise UserError(
            f"no rank {named}runs on this machine, as far as this user can see",
            hint="give the pid of a rank, look on another machine (-H HOST), or type: sudo unstuck "
            "attach",
        )
    if len(jobs) > 1 and not every:
        raise UserError(
            f"{len(jobs)} jobs run on this machine: "
            + "; ".join(_described(name, ranks) for name, ranks in jobs.items()),
            hint="choose one with --job ID or the pid of a rank, or take all with --all",
        )
    return jobs


def _described(name: str, ranks: Sequence[RankProcess]) -> str:
    ids = f" ({', '.join(ranks[0].ids)})" if ranks[0].ids else ""
    return f"{name}{ids}, {ranks_text(one.rank for one in ranks)}, pid {ranks[0].pid}"


def _refuse_if_blind(one: Attached) -> None:
    """Where not a single stack could be read, the answer is no answer."""
    if one.verdict or not one.is_blind:
        return
    first = next(iter(one.unseen), "no stack could be read")
    text, _, hint = first.partition("; ")
    raise WorldError(f"the job cannot be looked into: {text}", hint=hint)
