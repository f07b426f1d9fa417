"""The job's page: an address from the start, and a process only once somebody looks.

`unstuck run` opens the socket and prints the link. The server is started when the first browser
connects, so a job that nobody looks at pays nothing.
"""

import contextlib
import errno
import importlib.util
import os
import secrets
import select
import socket
import subprocess
import sys
from pathlib import Path

from unstuck.console import say
from unstuck.errors import UserError

INSTALL = "pip install 'unstuck[web]'"
_HERE = "127.0.0.1"
_NEEDS = ("starlette", "uvicorn")
_MOST_STARTS = 5
_END_WITHIN = 2.0


class WebPage:
    """The socket, the link, and the server once it is wanted."""

    def __init__(self, listener: socket.socket, shown_as: str) -> None:
        self._listener = listener
        self._token = secrets.token_urlsafe(24)
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0
        host, port = shown_as, listener.getsockname()[1]
        self.link = f"http://{f'[{host}]' if ':' in host else host}:{port}/?token={self._token}"

    @property
    def listener(self) -> socket.socket:
        """The socket, for whoever serves the page in this very process."""
        return self._listener

    @property
    def token(self) -> str:
        """What the link carries."""
        return self._token

    @property
    def pid(self) -> int | None:
        """The server's process, if there is one."""
        return self._process.pid if self._process else None

    def attend(self, run: Path, hub: str, token: str) -> None:
        """Start the server if somebody knocks and nobody is there to open."""
        if self._process is not None and self._process.poll() is not None:
            self._process = None
        if self._process is not None or self._starts > _MOST_STARTS:
            return
        if not select.select([self._listener], [], [], 0)[0]:
            return
        self._starts += 1
        if self._starts > _MOST_STARTS:
            say("the page died again and again; it is not started any more")
            return
        try:
            self._process = self._start(run, hub, token)
        except OSError as error:
            self._starts = _MOST_STARTS + 1
            say(f"the page cannot be started: {(error.strerror or str(error)).lower()}")

    def _start(self, run: Path, hub: str, token: str) -> subprocess.Popen[bytes]:
        handle = self._listener.fileno()
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "unstuck.show.web.server"),
                *("--listener", str(handle), "--run", str(run), "--hub", hub),
            ],
            env={**os.environ, "UNSTUCK_TOKEN": token, "UNSTUCK_WEB_TOKEN": self._token},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(handle,),
            start_new_session=True,
        )

    def end(self) -> None:
        """End the server and close the socket."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_END_WITHIN)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        self._listener.close()


def is_installed() -> bool:
    """Tell whether the packages that serve the page are there."""
    return all(importlib.util.find_spec(name) is not None for name in _NEEDS)


def open_page(asked: str | None) -> WebPage | None:
    """Open the page's socket: where asked, else on a free port of the loopback interface.

    Returns None where it cannot be served; only an address that was asked for is worth an error.

    Raises:
        UserError: the address is malformed, taken, or not of this machine.
    """
    if not is_installed():
        if asked or sys.stderr.isatty():
            say(f"to watch jobs in a browser: {INSTALL}")
        return None
    host, port = _address(asked) if asked else (_HERE, 0)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        if asked is None:
            return None
        raise _cannot(asked, error) from error
    listener.settimeout(0)
    return WebPage(listener, _name_for(host))


def _address(asked: str) -> tuple[str, int]:
    host, colon, port = asked.rpartition(":")
    if not colon or not port.isdigit() or int(port) >= 1 << 16:
        raise UserError(f"--web {asked} is not HOST:PORT", hint="--web 127.0.0.1:8080")
    return host.strip("[]") or _HERE, int(port)


def _name_for(host: str) -> str:
    """Return how a browser reaches an address: not by the one that stands for all."""
    return socket.gethostname() if host in {"0.0.0.0", "::"} else host  # noqa: S104 - only compared


def _cannot(asked: str, error: Exception) -> UserError:
    why = "cannot be used"
    if isinstance(error, OSError):
        taken = error.errno == errno.EADDRINUSE
        why = "is taken" if taken else (error.strerror or str(error)).lower()
    return UserError(f"--web {asked}: {why}", hint="choose another: --web 127.0.0.1:0, or --no-web")


def say_link(page: WebPage) -> None:
    """Say where the page is; a link that cannot be said is no reason to fail."""
    with contextlib.suppress(OSError):
        say(f"watch it at {page.link}")
