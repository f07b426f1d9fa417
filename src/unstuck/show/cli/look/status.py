"""`unstuck status`: how a job is doing now."""

from pathlib import Path

import click

from unstuck.errors import WorldError
from unstuck.pipelines.job_status import JobState
from unstuck.show import runs, status_text
from unstuck.show.cli.options import FOUND, NOTHING, json_option, print_json, run_argument


@click.command()
@json_option
@run_argument
def status(run: Path | None, as_json: bool) -> int:
    """Show how a running job is doing.

    RUN is a run directory, or the name of one below runs/. Without it, the job that runs on this
    host is shown, wherever it was started; if none runs, the newest run below runs/.

    \b
    unstuck status
    unstuck status runs/20261118-120000-train --json

    Exits with 1 if a verdict holds at this moment, 3 if the job runs but its watchers do not
    answer, else with 0.
    """
    found = runs.status(runs.find(run))
    if as_json:
        print_json(found)
    else:
        click.echo("\n".join(status_text.lines(found)))
    if found.state is JobState.UNWATCHED:
        return WorldError.exit_code
    return FOUND if found.open and found.state is not JobState.ENDED else NOTHING
