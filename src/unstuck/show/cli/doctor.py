"""`unstuck doctor`: is this machine fit for a distributed job, and do its machines meet?"""

import os
import sys
import time

import click

from unstuck.errors import UsageError
from unstuck.launch.rehearsal import rehearse
from unstuck.model.health import Rating
from unstuck.observe.machine import survey
from unstuck.show import doctor_table as table
from unstuck.show.cli.options import FOUND, NOTHING, print_json


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Check this machine, or a launch command, before the job runs.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND]...")
def doctor(command: tuple[str, ...], as_json: bool) -> int:
    """Check this machine before a job runs on it, or all machines of a launch command.

    \b
    unstuck doctor                                       this machine
    unstuck doctor torchrun --nnodes 2 … train.py        the launch, on each machine

    With a command, its launcher is started with a check in the place of the script: whether all
    ranks meet, whether versions and clocks agree, how fast each machine reaches each other one,
    and an all-reduce in groups of each size. It takes less than 30 seconds. Type the same on
    every machine; the one of rank 0 shows the table.

    Exits with 1 if something is bad, else with 0.
    """
    argv = command[1:] if command[:1] == ("--",) else command
    if argv and argv[0].startswith("-"):
        raise UsageError(f"no such option: {argv[0]}", hint="see `unstuck doctor --help`")
    began = time.monotonic()
    if argv:
        found = rehearse.rehearse(argv, os.environ)
        checks = found.checks
        where = "all its machines" if found.whole else "as seen from this machine"
        title = f"rehearsal of {argv[0].rsplit('/', 1)[-1]}, {where}, {found.seconds:.0f} s"
    else:
        checks = tuple(survey.machine(os.environ))
        title = f"{os.uname().nodename}, as {survey.user()}"
    if as_json:
        print_json(table.as_json(checks, round(time.monotonic() - began, 1)))
    else:
        sys.stdout.write(table.render(sys.stdout, title, checks))
    return FOUND if table.worst(checks) is Rating.BAD else NOTHING
