"""Ask an ASGI application as a server would, without a server."""

import asyncio
from typing import Any, NamedTuple


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def get(app: Any, path: str, method: str = "GET", **headers: str) -> Answer:
    """Send one request; `_` in a header's name stands for `-`."""
    return asyncio.run(request(app, path, method, **headers))


async def request(app: Any, path: str, method: str = "GET", **headers: str) -> Answer:
    sent: list[Any] = []
    plain, _, query = path.partition("?")
    given = {"host": "127.0.0.1:80", **headers}
    scope = {
        "type": "http",
        "method": method,
        "path": plain,
        "raw_path": plain.encode(),
        "query_string": query.encode(),
        "headers": [
            (name.replace("_", "-").encode(), value.encode("latin-1"))
            for name, value in given.items()
        ],
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1),
        "scheme": "http",
        "http_version": "1.1",
        "root_path": "",
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    found = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], found, b"".join(one.get("body", b"") for one in sent[1:]))
