"""`DuckDuckGo`: searches through DuckDuckGo's HTML form, with ddgs.

ddgs builds the request and knows the markup of the results, and its client, primp, sends requests as a browser would.
Its own `search` returns an empty list for every page without results, such as a request to solve a captcha, and blocks
a thread, which cannot be cancelled. So only its parts are used: the request is sent here with primp's asynchronous
client, which closes the connection at once if the search is cancelled. The page is read in a box
(`in_box/result_page.py`), where its kind is determined.
"""

import asyncio
import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from builtin_tools.web.contract import Progress, SearchHit, WebClient
from builtin_tools.web.search.engines import EngineAnswer, SearchRequest, blocked, changed, tidy, unavailable
from engine.dispatch.refusals import not_configured
from sandbox.contract import Call, End, Job, Limits, Sandbox

HOST = "html.duckduckgo.com"
TIMEOUT_S = 30  # of the whole request
MOST_BYTES = 4 << 20  # a page of results has about 50 kB
_PERIODS = {"": None, "day": "d", "week": "w", "month": "m", "year": "y"}
_BLOCKED_STATUS = frozenset({202, 403, 418, 429})
_OK, _SERVER_ERROR = 200, 500
_ENTRY, _PAGE = "read_result_page_.py", "results.html"
_PRELOAD = ("lxml.html", "ddgs.base")
_OTHER_ENGINE = "A person can set a SearXNG instance with `searxng` in [packs.web.search]."
_NEWER = f"If its pages have changed, a newer version of ddgs or Knackbox may know them. {_OTHER_ENGINE}"
_LIMITS = Limits(wall_s=30.0, cpu_s=20.0, memory_bytes=512 << 20, output_bytes=2 << 20)


@dataclass(frozen=True, slots=True)
class _Answered:
    status: int
    retry_after: str
    body: bytes


@dataclass(frozen=True, slots=True)
class _Form:
    """A request that fills in the form. `error` is the base class of the errors of `client`."""

    client: Any
    method: str
    url: str
    payload: Mapping[str, Any]
    error: type[Exception]


class DuckDuckGo:
    """Implements `SearchEngine`."""

    name = "DuckDuckGo"

    def __init__(self, client: WebClient, sandbox: Sandbox, *, url: str = "", ca_file: str = "") -> None:
        """Create the engine.

        Args:
            client: Names the proxy to use, and keeps the rate limit of the host.
            sandbox: Runs the boxes in which pages of results are read.
            url: The address of the form; "" for DuckDuckGo's own.
            ca_file: A file with the certificates that are trusted (PEM); "" for those in the file that
                ``SSL_CERT_FILE`` names, or else those that ddgs trusts.
        """
        self._client = client
        self._sandbox = sandbox
        self._url = url
        self._ca_file = ca_file
        self._host = urlsplit(url).hostname if url else HOST

    async def search(self, request: SearchRequest, *, circuit: str, progress: Progress) -> EngineAnswer:
        """Return a page of results. It is empty only if DuckDuckGo says that there are none.

        Raises:
            ToolFailure: The route is not available, or DuckDuckGo refused the request or answered something else.
        """
        progress("waiting for the route", None)
        proxy, route = await self._client.proxy_of(self._host or HOST, circuit=circuit)
        if proxy is None:
            self._refuse_other_proxies()
        progress(f"searching with {self.name}", None)
        answered = await self._send(request, proxy)
        _check_status(answered)
        found = await self._read(answered.body)
        hits = tuple(_hits(found.get("hits")))
        match found.get("kind"):
            case "results" if hits:
                return EngineAnswer(hits, bool(found.get("more")), route)
            case "none":
                return EngineAnswer((), more=False, route=route)
            case "blocked":
                raise blocked(self.name, "it asks to prove that a person sent it", _OTHER_ENGINE)
            case "empty":
                raise changed(self.name, "the page is empty", _NEWER)
            case _:
                raise changed(self.name, "it has neither results nor the statement that there are none", _NEWER)

    async def _send(self, request: SearchRequest, proxy: str | None) -> _Answered:
        """Send a request and read the body up to the limit.

        Raises:
            ToolFailure: There was no answer.
        """
        form = await asyncio.to_thread(self._form, request, proxy)
        address = self._url or form.url
        try:
            async with asyncio.timeout(TIMEOUT_S):
                response = await form.client.request(
                    form.method,
                    address,
                    data=form.payload,
                    headers={"referer": address},
                    follow_redirects=False,
                    stream=True,
                )
                try:
                    body = await self._body(response)
                finally:
                    await response.aclose()
        except TimeoutError as error:
            raise unavailable(self.name, f"no complete answer within {TIMEOUT_S} s") from error
        except form.error as error:
            raise unavailable(self.name, " ".join(str(error).split())[:300] or type(error).__name__) from error
        return _Answered(response.status_code, response.headers.get("retry-after", ""), body)

    async def _body(self, response: Any) -> bytes:
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MOST_BYTES:
                raise changed(self.name, f"the page has more than {MOST_BYTES:,} bytes", _NEWER)
        return bytes(body)

    def _form(self, request: SearchRequest, proxy: str | None) -> _Form:
        """Return what ddgs would send, and a client with the options of that of ddgs. Blocks."""
        import primp  # noqa: PLC0415 -- with ddgs half a second, and 20 MB
        from ddgs.engines.duckduckgo import Duckduckgo  # noqa: PLC0415

        trusted = self._ca_file or os.environ.get("SSL_CERT_FILE", "")
        client = primp.AsyncClient(
            proxy=proxy,
            timeout=TIMEOUT_S,
            impersonate="random",
            impersonate_os="random",
            ca_cert_file=trusted or None,
            headers=dict(Duckduckgo.headers_update) or None,
        )
        payload = Duckduckgo(timeout=TIMEOUT_S).build_payload(
            request.query, request.region, "moderate", _PERIODS[request.time_range], request.page
        )
        return _Form(client, Duckduckgo.search_method, Duckduckgo.search_url, payload, primp.PrimpError)

    async def _read(self, page: bytes) -> dict[str, Any]:
        job = Job(
            call=Call(_ENTRY, "read_results", {"path": _PAGE}),
            files={**await asyncio.to_thread(_box_files), _PAGE: page},
            preload=_PRELOAD,
            limits=_LIMITS,
        )
        outcome = await self._sandbox.run(job)
        if outcome.end is not End.OK or not isinstance(outcome.value, dict):
            detail = outcome.error.message[:200] if outcome.error is not None else outcome.end.value
            raise changed(self.name, f"it could not be read: {detail}", _NEWER)
        return outcome.value

    def _refuse_other_proxies(self) -> None:
        """Refuse a direct request if the library would send it to a proxy of the environment.

        Raises:
            ToolFailure: A variable such as ``HTTPS_PROXY`` is set (FATAL).
        """
        found = getproxies_environment()
        host = self._host or HOST
        if any(found.get(name) for name in ("http", "https", "all")) and not proxy_bypass(host):
            raise not_configured(
                f"{host} is to be requested directly, but the environment sets a proxy (such as HTTPS_PROXY), which "
                f"the search library would use. A person can unset it, add {host} to NO_PROXY, or name "
                "the proxy as the route in [packs.web]."
            )


def _check_status(answered: _Answered) -> None:
    """Check the status of a response.

    Raises:
        ToolFailure: It is not that of a page of results.
    """
    status, after = answered.status, answered.retry_after
    seconds = float(after[:6]) if after.isascii() and after.isdigit() else None
    if status in _BLOCKED_STATUS:
        raise blocked(DuckDuckGo.name, f"HTTP status {status}", _OTHER_ENGINE, seconds)
    if status >= _SERVER_ERROR:
        raise unavailable(DuckDuckGo.name, f"HTTP status {status}", seconds)
    if status != _OK:
        raise changed(DuckDuckGo.name, f"HTTP status {status}", _NEWER)


def _hits(found: object) -> list[SearchHit]:
    """Return the hits of a box's answer, which a malicious page may have forged."""
    if not isinstance(found, list):
        return []
    read = [
        tidy(each.get("title"), each.get("url"), each.get("snippet"), each.get("date"))
        for each in found
        if isinstance(each, Mapping)
    ]
    return [hit for hit in read if hit is not None]


@functools.cache
def _box_files() -> Mapping[str, bytes]:
    return {_ENTRY: (Path(__file__).parent / "in_box" / "result_page.py").read_bytes()}
