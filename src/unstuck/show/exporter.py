"""An HTTP server with one page, `/metrics`: of all runs on this host, or of those named."""

import hmac
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from unstuck.show import metrics, runs
from unstuck.show.addresses import is_loopback
from unstuck.show.runs import Run

KEPT = 3600.0
"""Seconds for which a run that has ended is still shown: long enough for every scrape to see it."""
_WITHIN = 10.0


def collect(named: Sequence[Path] = (), now: float | None = None) -> str:
    """Return the metrics of the runs that were named, or of all that run or ended a while ago.

    Example:
        print(collect())
    """
    moment = time.time() if now is None else now
    if named:
        chosen = [runs.find(path) for path in named]
    else:
        known = {one.path: one for one in (*runs.below(), *runs.running())}
        chosen = [one for one in known.values() if one.running or _is_recent(one, moment)]
    return metrics.render((one.name, runs.status(one)) for one in _one_of_each_name(chosen))


def _one_of_each_name(chosen: Sequence[Run]) -> list[Run]:
    """Two runs of one name would be one series twice: the one that runs is shown."""
    return list({one.name: one for one in sorted(chosen, key=lambda one: one.running)}.values())


def _is_recent(run: Run, now: float) -> bool:
    return now - run.path.stat().st_mtime < KEPT


class Exporter(ThreadingHTTPServer):
    """Serves until it is shut down; whoever asks too slowly is cut off."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], token: str, named: Sequence[Path] = ()) -> None:
        """Listen at an address; with a token, every request needs it."""
        self.named = named
        self.token = token
        self.guards_name = is_loopback(address[0])
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: Exporter  # pyright: ignore[reportIncompatibleVariableOverride]
    server_version = "unstuck"
    sys_version = ""
    timeout = _WITHIN

    def do_GET(self) -> None:
        if not self._is_for_us():
            self._answer(403, "text/plain", "ask by the address this server listens on\n")
        elif not self._knows_token():
            self._answer(401, "text/plain", "a bearer token is needed\n")
        elif self.path.partition("?")[0] != "/metrics":
            self._answer(404, "text/plain", "there is only /metrics\n")
        else:
            self._answer(200, metrics.CONTENT_TYPE, collect(self.server.named))

    def _is_for_us(self) -> bool:
        """Refuse a name that somebody has pointed at this address (DNS rebinding)."""
        try:
            host = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
        except ValueError:
            host = ""
        return not self.server.guards_name or is_loopback(host)

    def _knows_token(self) -> bool:
        given = self.headers.get("Authorization", "").encode("utf-8", "replace")
        expected = f"Bearer {self.server.token}".encode()
        return not self.server.token or hmac.compare_digest(given, expected)

    def _answer(self, code: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing: a scrape every few seconds is no news."""
