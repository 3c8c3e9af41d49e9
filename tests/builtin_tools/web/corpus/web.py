"""The web server of the corpus: all hosts at one address, told apart by the header `Host`.

It is also an HTTP proxy for these hosts, so that a test on loopback needs no names.
"""

import asyncio
import gzip
import json
import re
from collections.abc import Awaitable, Callable, Iterable
from html import escape
from typing import Any
from urllib.parse import parse_qs, unquote

from engine.retrieval.bm25 import Bm25
from engine.retrieval.document import Field
from tests.builtin_tools.web.corpus.hostile import hostile_pages
from tests.builtin_tools.web.corpus.sites import CorpusPage, own_pages, package_pages

DUCKDUCKGO = "html.duckduckgo.com"
SEARXNG = "searx.test"
PRIVATE = {
    "loopback": "http://127.0.0.1:1/",
    "private": "http://10.0.0.1/",
    "metadata": "http://169.254.169.254/latest/meta-data/",
    "ipv6": "http://[::1]/",
    "mapped": "http://[::ffff:127.0.0.1]/",
    "number": "http://2130706433/",
    "loop": "/loop",
    "file": "file:///etc/passwd",
}
# Words in a query that make the search engines answer in another way.
CAPTCHA, ACCEPTED, LIMITED, REDESIGN, NOTHING, HALF = (
    *("askforcaptcha", "answer202", "answer429", "newmarkup", "emptybody", "halfmarkup"),
)
_PAGE_SIZES = (10, 15)
_ORIGIN = re.compile("^http://[^/]*")
_SNIPPET = 180

Scope = dict[str, Any]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


class CorpusWeb:
    """An ASGI application with all pages and the search engines.

    Attributes:
        requests: Host and path of every request.
    """

    def __init__(self, pages: Iterable[CorpusPage]) -> None:
        self.pages = {(page.host, page.path): page for page in pages}
        self.requests: list[tuple[str, str]] = []
        self._by_url = {page.url: page for page in self.pages.values()}
        self._index = Bm25()
        for page in self.pages.values():
            if page.media_type.startswith("text/html"):
                self._index.add(page.url, [Field(page.title, 3.0), Field(page.words[:6_000], 1.0, 400.0)])

    @classmethod
    def small(cls) -> "CorpusWeb":
        """Return a web of Knackbox's documentation and the hostile pages."""
        real = list(own_pages())
        return cls([*real, *hostile_pages(real)])

    @classmethod
    def full(cls) -> "CorpusWeb":
        """Return a web with the documentation packages too."""
        real = [*own_pages(), *package_pages()]
        return cls([*real, *hostile_pages(real)])

    def found(self, query: str) -> list[CorpusPage]:
        """Return the pages for a query, best first. The words ``site:HOST`` limit the hosts."""
        words = query.split()
        sites = {word.removeprefix("site:") for word in words if word.startswith("site:")}
        text = " ".join(word for word in words if not word.startswith("site:"))
        pages = (self._by_url[url] for url, _ in self._index.search(text, 300))
        return [page for page in pages if not sites or page.host in sites]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "").rpartition(":")[0] or headers.get("host", "")
        # A client that uses the corpus as its proxy sends the whole URL.
        path = unquote(_ORIGIN.sub("", scope["raw_path"].decode().partition("?")[0]) or "/")
        self.requests.append((host, path))
        if host == DUCKDUCKGO:
            await self._duckduckgo(await _form(scope, receive), send)
        elif host == SEARXNG:
            await self._searxng(await _form(scope, receive), send)
        elif host == "slow.test" and path != "/robots.txt":
            await _slowly(path, receive, send)
        elif host == "redirect.test" and path.strip("/") in PRIVATE:
            await _reply(send, 302, b"", "text/plain", location=PRIVATE[path.strip("/")])
        elif host == "large.test":
            await _reply(send, 200, gzip.compress(b"<p>" + b"a" * (64 << 20)), "text/html", content_encoding="gzip")
        else:
            page = self.pages.get((host, path))
            if page is None:
                await _reply(send, 404, b"not here", "text/plain")
            else:
                await _reply(send, 200, await asyncio.to_thread(lambda: page.data), page.media_type)

    async def _duckduckgo(self, form: dict[str, str], send: Send) -> None:
        query = form.get("q", "")
        if CAPTCHA in query:
            await _reply(send, 200, _CAPTCHA, "text/html")
        elif ACCEPTED in query:
            await _reply(send, 202, _CAPTCHA, "text/html")
        elif LIMITED in query:
            await _reply(send, 429, b"too many requests", "text/html", retry_after="90")
        elif REDESIGN in query:
            await _reply(
                send, 200, b"<html><body><ol><li><a href='http://a.test/'>A</a></ol></body></html>", "text/html"
            )
        elif NOTHING in query:
            await _reply(send, 200, b"", "text/html")
        else:
            start = int(form.get("s") or 0)
            page = _result_page(query, self.found(query), start)
            if HALF in query:
                page = page.replace("<h2", "<h4").replace("</h2", "</h4")
            await _reply(send, 200, page.encode(), "text/html; charset=UTF-8")

    async def _searxng(self, form: dict[str, str], send: Send) -> None:
        query = form.get("q", "")
        if form.get("format") != "json":
            await _reply(send, 403, b"Forbidden", "text/html")
            return
        found = [] if CAPTCHA in query or NOTHING in query else self.found(query)
        start = 10 * (int(form.get("pageno") or 1) - 1)
        results = [
            {"url": page.url, "title": page.title, "content": _snippet(page, query), "publishedDate": page.date or None}
            for page in found[start : start + 10]
        ]
        silent = [["duckduckgo", "CAPTCHA"], ["brave", "timeout"]] if CAPTCHA in query else []
        body = {"query": query, "number_of_results": len(found), "results": results, "unresponsive_engines": silent}
        await _reply(send, 200, json.dumps(body).encode(), "application/json")


_CAPTCHA = b"""<html><body><form id="challenge-form" action="//duckduckgo.com/anomaly.js?sv=html" method="POST">
<div class="anomaly-modal__title">Unfortunately, bots use DuckDuckGo too.</div>
<div class="anomaly-modal__description">Please complete the following challenge.</div></form></body></html>"""


def _result_page(query: str, found: list[CorpusPage], start: int) -> str:
    """Return a page of results with the elements and classes of DuckDuckGo's HTML form."""
    size = _PAGE_SIZES[start > 0]
    shown = found[start : start + size]
    rows = "".join(_row(page, query) for page in shown)
    if not shown:
        rows = (
            '<div class="result results_links results_links_deep result--no-result"><div class="links_main links_deep '
            'result__body"><div class="no-results">No results.</div></div></div>'
        )
    following = (
        f'<div class="nav-link"><form action="/html/" method="post"><input type="submit" class="btn btn--alt" '
        f'value="Next"><input type="hidden" name="q" value="{escape(query)}"><input type="hidden" name="s" '
        f'value="{start + size}"></form></div>'
        if len(found) > start + size
        else ""
    )
    return (
        f"<!DOCTYPE html><html><head><title>{escape(query)} at DuckDuckGo</title></head><body><form id='search_form' "
        f"action='/html/' method='post'><input name='q' value='{escape(query)}'></form>"
        f"<div id='links' class='results'>{rows}{following}</div></body></html>"
    )


def _row(page: CorpusPage, query: str) -> str:
    url = escape(page.url)
    date = f"<span>&nbsp; &nbsp; {page.date}T00:00:00.0000000</span>" if page.date else ""
    return (
        '<div class="result results_links results_links_deep web-result"><div class="links_main links_deep result__body">'
        f'<h2 class="result__title"><a rel="nofollow" class="result__a" href="{url}">{escape(page.title)}</a></h2>'
        f'<div class="result__extras"><div class="result__extras__url"><a class="result__url" href="{url}">'
        f'{escape(page.host + page.path)}</a>{date}</div></div><a class="result__snippet" href="{url}">'
        f'{escape(_snippet(page, query))}</a><div class="clear"></div></div></div>'
    )


def _snippet(page: CorpusPage, query: str) -> str:
    text = page.words
    places = [at for word in query.lower().split() if (at := text.lower().find(word)) >= 0]
    start = max(0, min(places, default=0) - 20)
    return text[start : start + _SNIPPET]


async def _form(scope: Scope, receive: Receive) -> dict[str, str]:
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    fields = parse_qs(scope["query_string"].decode()) | parse_qs(body.decode())
    return {name: values[-1] for name, values in fields.items()}


async def _slowly(path: str, receive: Receive, send: Send) -> None:
    """Never answer, or begin an answer that never ends, until the client leaves."""
    if path == "/endless":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
        await send({"type": "http.response.body", "body": b"<p>It begins", "more_body": True})
    while (await receive())["type"] != "http.disconnect":
        pass


async def _reply(send: Send, status: int, body: bytes, media_type: str, **headers: str) -> None:
    given = {"content-type": media_type, "content-length": str(len(body))}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in given.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
