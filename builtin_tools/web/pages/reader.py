"""`BoxedPageReader`: requests pages, reads them in boxes, and keeps them."""

import asyncio
import logging
from datetime import timedelta
from urllib.parse import urldefrag

from builtin_tools.documents.extraction import WEB_PAGE, ExtractedText, extract
from builtin_tools.documents.formats import MEDIA_TYPES, UnknownFormat, format_of
from builtin_tools.web.contract import Page, PageLink, Progress, WebClient, WebResponse
from builtin_tools.web.pages.page_cache import PageCache, digest_of
from engine.contract.context import Clock, no_progress
from engine.contract.failure import ToolFailure
from sandbox.contract import Sandbox

_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
# Text whose readers for the memory would change it. A page is quoted as it is.
_AS_TEXT = frozenset({"csv", "json", "markdown"})
_EMPTY = "it contains no text that a reader would see. It may need a browser that runs its scripts; find another page."

log = logging.getLogger(__name__)


class BoxedPageReader:
    """Implements `PageReader`."""

    def __init__(
        self, client: WebClient, sandbox: Sandbox, cache: PageCache, clock: Clock, fresh_for: timedelta
    ) -> None:
        """Create the reader.

        Args:
            client: Sends the requests.
            sandbox: Runs the boxes in which pages are read.
            cache: Keeps the pages.
            clock: The current time.
            fresh_for: How long a kept page is returned without a new request.
        """
        self._client = client
        self._sandbox = sandbox
        self._cache = cache
        self._clock = clock
        self._fresh_for = fresh_for

    async def read(self, url: str, *, circuit: str, fresh: bool = False, progress: Progress | None = None) -> Page:
        """Return the page at a URL, from the cache unless it is too old or `fresh` is set.

        Raises:
            ToolFailure: The page cannot be requested or read.
        """
        report = progress or no_progress
        url = urldefrag(url.strip()).url
        if not fresh:
            kept = await asyncio.to_thread(self._cache.at, url)
            if kept is not None and self._is_fresh(kept):
                return kept
        response = await self._client.get(url, circuit=circuit, progress=progress)
        report("reading the page in a box", None)
        format_name = await asyncio.to_thread(_format_of, response, url)
        text = await extract(
            self._sandbox,
            response.data,
            format_name,
            name=url,
            url=response.url,
            charset=response.charset,
        )
        if not text.text.strip():
            raise ToolFailure(f"{url}: {_EMPTY}", reason="empty_page", may_have_started=False)
        page = await asyncio.to_thread(_page, url, response, format_name, text)
        try:
            await asyncio.to_thread(self._cache.put, page)
        except OSError as error:  # the page itself can be used
            log.warning("The page %s cannot be kept: %s", url, error)
        return page

    async def cached(self, sha256: str) -> Page | None:
        """Return the page whose text has this digest; None if it is not in the cache."""
        return await asyncio.to_thread(self._cache.with_digest, sha256)

    def _is_fresh(self, page: Page) -> bool:
        age = self._clock.now() - page.fetched_at
        return timedelta(0) <= age < self._fresh_for


def _format_of(response: WebResponse, url: str) -> str:
    """Return the format of a response. What the server states counts more than the end of the URL.

    Raises:
        ToolFailure: The format is not supported.
    """
    media_type = "text/html" if response.media_type in _HTML_TYPES else response.media_type
    try:
        found = format_of(response.data, "", media_type)
    except UnknownFormat as error:
        stated = f" (the server says {response.media_type})" if response.media_type else ""
        raise ToolFailure(f"{url}{stated}: {error}", reason="unreadable_document", may_have_started=False) from error
    if found == "html":
        return WEB_PAGE
    return "text" if found in _AS_TEXT else found


def _page(url: str, response: WebResponse, format_name: str, text: ExtractedText) -> Page:
    return Page(
        url=url,
        final_url=response.url,
        text=text.text,
        sha256=digest_of(text.text),
        fetched_at=response.fetched_at,
        route=response.route,
        title=text.title,
        date=text.date,
        author=text.author,
        media_type=response.media_type or MEDIA_TYPES.get(format_name, "text/html"),
        links=tuple(PageLink(target, label) for target, label in text.links),
        page_starts=text.pages,
        notes=text.notes,
    )
