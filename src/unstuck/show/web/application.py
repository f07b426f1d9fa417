"""The page and what it asks for, as a web application. It only shows: nothing here acts."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from importlib.resources import files
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from unstuck.explain.kb.load import load
from unstuck.explain.kb.schema import Record, say
from unstuck.explain.report.incident import markdown, waiting_svg
from unstuck.explain.report.incident.contents import contents
from unstuck.explain.view.rank_view import view_rank
from unstuck.explain.view.stack_tree import merge_stacks
from unstuck.explain.view.waiting import picture
from unstuck.model.exits import Exit
from unstuck.model.verdict import Verdict
from unstuck.show.web.feed import Feed

_STATIC = {
    "index.html": "text/html; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "grid.js": "text/javascript; charset=utf-8",
    "panels.js": "text/javascript; charset=utf-8",
    "app.css": "text/css; charset=utf-8",
    "vendor/htm-preact.js": "text/javascript; charset=utf-8",
    "vendor/uplot.js": "text/javascript; charset=utf-8",
    "vendor/uplot.css": "text/css; charset=utf-8",
}
"""Everything that can be fetched by name, so that no path leads anywhere else."""
MOST_READERS = 64
_MOST_QUERY = 200
_MOST_RECORDS = 20
_REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"

Handler = Callable[[Feed, Request], Awaitable[Response]]


class Application:
    """Serves any number of runs; `app` is what a server is given."""

    def __init__(self, feeds: Sequence[Feed]) -> None:
        self._feeds = feeds
        self._readers = 0
        self._tasks: dict[int, asyncio.Task[None]] = {}
        routes = [
            Route("/", self._index),
            Route("/static/{name:path}", self._static),
            Route("/runs", self._runs),
            Route("/r/{run:int}/", self._page),
        ]
        for name, handler in _ROUTES.items():
            routes.append(Route(f"/r/{{run:int}}/{name}", self._of_run(handler)))
        routes.append(Route("/r/{run:int}/events", self._events))
        self.app = Starlette(routes=routes, lifespan=self._lifespan)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncGenerator[None, None]:
        yield
        for task in self._tasks.values():
            task.cancel()

    # --- pages

    async def _index(self, _request: Request) -> Response:
        return RedirectResponse("/r/0/", 303)

    async def _page(self, request: Request) -> Response:
        return _missing() if self._feed(request) is None else _asset("index.html")

    async def _static(self, request: Request) -> Response:
        return _asset(request.path_params["name"])

    async def _runs(self, _request: Request) -> Response:
        sources = [feed.source for feed in self._feeds]
        return _json([{"name": one.run.name, "live": one.live} for one in sources])

    # --- one run

    def _feed(self, request: Request) -> Feed | None:
        number: int = request.path_params["run"]
        if not 0 <= number < len(self._feeds):
            return None
        feed = self._feeds[number]
        if number not in self._tasks:
            self._tasks[number] = asyncio.create_task(feed.run())
        return feed

    def _of_run(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            feed = self._feed(request)
            return _missing() if feed is None else await handler(feed, request)

        return answer

    async def _events(self, request: Request) -> Response:
        feed = self._feed(request)
        if feed is None:
            return _missing()
        if self._readers >= MOST_READERS:
            return Response("too many pages are open", 503)
        return StreamingResponse(self._stream(feed), media_type="text/event-stream")

    async def _stream(self, feed: Feed) -> AsyncIterator[bytes]:
        self._readers += 1
        try:
            async for event in feed.events():
                yield event
        finally:
            self._readers -= 1


def _asset(name: str) -> Response:
    kind = _STATIC.get(name)
    if kind is None:
        return _missing()
    content = files("unstuck.show.web").joinpath("static", *name.split("/")).read_bytes()
    if name == "app.css":
        content = _palette() + content
    return Response(content, media_type=kind)


def _palette() -> bytes:
    return files("unstuck.explain.report.incident").joinpath("palette.css").read_bytes()


def _missing() -> Response:
    return Response("there is nothing here", 404, media_type="text/plain")


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


# --- what the page asks about one run


async def _rank(feed: Feed, request: Request) -> Response:
    snapshot, verdict = feed.snapshot(), feed.source.verdict
    rank = request.path_params["rank"]
    return _json(await asyncio.to_thread(view_rank, snapshot, rank, verdict))


async def _stacks(feed: Feed, _request: Request) -> Response:
    return _json(await asyncio.to_thread(merge_stacks, feed.snapshot()))


async def _waiting(feed: Feed, _request: Request) -> Response:
    shown = await asyncio.to_thread(picture, feed.snapshot(), feed.source.verdict)
    return Response(waiting_svg.as_file(shown), media_type="image/svg+xml", headers=_SVG)


_SVG = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}


async def _markdown(feed: Feed, _request: Request) -> Response:
    text = await asyncio.to_thread(_as_markdown, feed)
    return Response(text, media_type="text/plain; charset=utf-8")


def _as_markdown(feed: Feed) -> str:
    verdict: Verdict | None = feed.source.verdict
    return markdown.render(contents(feed.snapshot(), verdict, {}, title=feed.source.run.name))


async def _past(feed: Feed, _request: Request) -> Response:
    return _json({**feed.past(), "name": feed.source.run.name, "path": str(feed.source.run)})


async def _settings(feed: Feed, _request: Request) -> Response:
    found, ledger = feed.folder.settings(), feed.folder.ledger()
    exits = {code.name.lower().replace("_", " "): code.value for code in Exit}
    return _json({"timeouts": found, "ledger": ledger, "exits": exits})


async def _knowledge(_feed: Feed, request: Request) -> Response:
    query = request.query_params.get("q", "")[:_MOST_QUERY]
    lang = "zh" if request.query_params.get("lang") == "zh" else "en"
    return _json(await asyncio.to_thread(_search, query, lang))


def _search(query: str, lang: str) -> list[dict[str, Any]]:
    found = load().search([query], _MOST_RECORDS) if query.strip() else []
    return [_record(one, lang) for one in found]


def _record(record: Record, lang: str) -> dict[str, Any]:
    return {
        "id": record.id,
        "title": say(record.title, lang),
        "signature": record.signature,
        "tier": str(record.tier),
        "why": say(record.root_cause, lang),
        "causes": [[str(one.cause), say(one.evidence, lang)] for one in record.causes],
        "do": [[say(one.action, lang), say(one.how, lang)] for one in record.workarounds],
        "dont": [[say(one.action, lang), say(one.why, lang)] for one in record.dead_ends],
        "sources": [one for one in (*record.docs, *record.sources) if one.startswith("http")][:6],
    }


async def _report(feed: Feed, request: Request) -> Response:
    found = feed.folder.report(request.path_params["incident"])
    if found is None:
        return _missing()
    headers = {"content-security-policy": _REPORT_POLICY}
    return Response(found, media_type="text/html; charset=utf-8", headers=headers)


_ROUTES: dict[str, Handler] = {
    "rank/{rank:int}": _rank,
    "stacks": _stacks,
    "waiting.svg": _waiting,
    "markdown": _markdown,
    "past": _past,
    "settings": _settings,
    "knowledge": _knowledge,
    "{incident}/report.html": _report,
}
