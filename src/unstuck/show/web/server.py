"""The process that serves the page: `python -m unstuck.show.web.server`.

`unstuck run` starts it when the first browser connects, in the hub's process group but apart from
it and at low priority: whatever a browser does costs the hub and the job nothing.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from unstuck.collect.following import Follower
from unstuck.errors import WorldError
from unstuck.launch.webpage import open_page, say_link
from unstuck.show.web.application import Application
from unstuck.show.web.feed import Feed
from unstuck.show.web.guard import Guard
from unstuck.show.web.sources import LiveRun, StoredRun

_NICE = 10
_LOOK_FOR_PARENT_EVERY = 2.0
_MOST_CONNECTIONS = 256
_REQUEST_WITHIN = 5


async def serve(
    listener: socket.socket, feeds: Sequence[Feed], token: str, follower: Follower | None = None
) -> None:
    """Serve these runs on a socket until SIGTERM or Ctrl-C, or until the parent is gone."""
    port = listener.getsockname()[1]
    application = Guard(Application(feeds).app, token, port)
    config = uvicorn.Config(
        application,
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=_REQUEST_WITHIN,
        timeout_graceful_shutdown=1,
        ws="none",
        loop="asyncio",
        http="h11",
    )
    server = uvicorn.Server(config)
    tasks = [asyncio.create_task(_end_with_parent(server))]
    if follower is not None:
        tasks.append(asyncio.create_task(follower.follow()))
    try:
        await server.serve(sockets=[listener])
    finally:
        for task in tasks:
            task.cancel()


async def _end_with_parent(server: uvicorn.Server) -> None:
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 - there is no event for that
        await asyncio.sleep(_LOOK_FOR_PARENT_EVERY)
    server.should_exit = True


def show_stored(runs: Sequence[Path], asked: str | None) -> None:
    """Serve stored runs from this process until Ctrl-C.

    Raises:
        BundleError: one of them holds no incident, or a damaged one.
        UserError: the address cannot be used.
    """
    feeds = [Feed(StoredRun(run)) for run in runs]
    page = open_page(asked)
    if page is None:
        raise WorldError("no free port on the loopback interface", hint="name one with --web")
    say_link(page)
    try:
        asyncio.run(serve(page.listener, feeds, page.token))
    finally:
        page.end()


def main() -> None:
    """Serve the page of a job that runs, on a socket that `unstuck run` opened."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--listener", type=int, required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--hub", required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    host, _, port = options.hub.rpartition(":")
    token, page_token = os.environ.pop("UNSTUCK_TOKEN"), os.environ.pop("UNSTUCK_WEB_TOKEN")

    async def run() -> None:
        follower = Follower((host, int(port)), token)
        feed = Feed(LiveRun(options.run, follower))
        await serve(listener, [feed], page_token, follower)

    with socket.socket(fileno=options.listener) as listener:
        asyncio.run(run())


if __name__ == "__main__":
    main()
