"""Who may see the page: only browsers that were given its link, on a host name that is ours.

- The link carries a token; it is exchanged for a cookie at once and leaves the address bar.
- The Host header must be an IP address, localhost or a name of this machine: a page of somebody
  else whose name suddenly leads here (DNS rebinding) is refused.
- A request that another site sends has its Origin, or says so (Sec-Fetch-Site): refused too.
"""

import hmac
import ipaddress
import socket
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
_STRANGERS = frozenset({"cross-site", "same-site"})


class Guard:
    """Wraps the application: nothing reaches it that may not, and every answer has its headers."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token
        self._cookie = f"unstuck-{port}"
        name = socket.gethostname()
        self._names = {"localhost", name.lower(), socket.getfqdn().lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        answer = self._refusal(scope)
        await (answer or self._app)(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if scope["method"] not in {"GET", "HEAD"}:
            return _page("This page is only for looking.", 405)
        if not self._is_ours(headers.get("host", "")):
            return _page("This page is not served under that name.", 421)
        if not _same_origin(headers):
            return _page("This page does not answer other sites.", 403)
        asked = QueryParams(scope["query_string"]).get("token")
        if asked is not None and self._is_right(asked):
            answer = RedirectResponse(scope["path"], 303)
            answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
            return answer
        if self._is_right(_bearer(headers)) or self._is_right(self._from_cookie(headers)):
            return None
        return _page("This page needs the link that <code>unstuck</code> printed.", 401)

    def _is_ours(self, host: str) -> bool:
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        name = name.strip("[]").rstrip(".").lower()
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return True

    def _is_right(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self._token.encode())

    def _from_cookie(self, headers: Headers) -> str:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return found.value if found else ""


def _bearer(headers: Headers) -> str:
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _same_origin(headers: Headers) -> bool:
    if headers.get("sec-fetch-site") in _STRANGERS and headers.get("sec-fetch-mode") != "navigate":
        return False
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host")


def _page(text: str, status: int) -> Response:
    return HTMLResponse(f"<!doctype html><title>unstuck</title><p>{text}</p>", status)


def _with_headers(send: Send) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return wrapped
