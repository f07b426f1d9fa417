"""`unstuck metrics`: Prometheus metrics of the jobs on this host."""

import contextlib
import os
from pathlib import Path

import click

from unstuck.console import say
from unstuck.errors import UsageError, WorldError
from unstuck.show.addresses import is_loopback, parse_address

TOKEN = "UNSTUCK_METRICS_TOKEN"  # noqa: S105 - the name of a variable


@click.command()
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Serve /metrics there until interrupted, instead of printing once. Port 0: any free port.",
)
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path), metavar="[RUN]...")
def metrics(runs: tuple[Path, ...], listen: str | None) -> None:
    """Print or serve Prometheus metrics of the jobs on this host.

    RUN is a run directory, or the name of one below runs/. Without it, all jobs that run on this
    host are shown, and those below runs/ that ended within the last hour.

    \b
    unstuck metrics --listen 127.0.0.1:9099
    unstuck metrics > /var/lib/node_exporter/unstuck.prom

    Alert rules for Prometheus and a Grafana dashboard are in deploy/. To listen beyond this host,
    set UNSTUCK_METRICS_TOKEN: every request then needs `Authorization: Bearer TOKEN`.
    """
    from unstuck.show import exporter

    if listen is None:
        click.echo(exporter.collect(runs), nl=False)
        return
    host, port = parse_address(listen, "--listen")
    token = os.environ.get(TOKEN, "")
    if not token and not is_loopback(host):
        raise UsageError(
            f"{listen} can be reached from other hosts, but {TOKEN} is not set",
            hint="set it, or listen on 127.0.0.1",
        )
    try:
        server = exporter.Exporter((host, port), token, runs)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise WorldError(f"cannot listen on {listen}: {reason}") from error
    say(f"metrics at http://{host}:{server.server_address[1]}/metrics")
    with server, contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
