"""`LocalWeb`: pages in memory that can be searched and read, as a `WebSearch` and a `PageReader`."""

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from builtin_tools.web.contract import Page, Progress, SearchHit, SearchHits, TimeRange
from engine.contract.failure import FailureClass, ToolFailure
from engine.retrieval.bm25 import Bm25
from engine.retrieval.document import Field

READ_AT = datetime(2026, 1, 5, 12, tzinfo=UTC)


def page_of(url: str, text: str, title: str = "", date: str = "") -> Page:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Page(url, url, text, digest, READ_AT, "local", title=title, date=date, media_type="text/html")


@dataclass
class LocalWeb:
    """Stores pages by URL.

    Attributes:
        reads, searches: What was requested, in order.
        broken: URLs whose requests fail.
        on_read: Called before a page is returned.
        hold: When set, requests for pages wait for it.
        silent: Whether searches get no answer.
    """

    pages: dict[str, Page] = field(default_factory=dict)
    reads: list[str] = field(default_factory=list)
    searches: list[str] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    offline: bool = False
    on_read: Callable[[str], None] = lambda url: None
    hold: asyncio.Event | None = None
    silent: bool = False
    _index: Bm25 = field(default_factory=Bm25)

    @classmethod
    def of(cls, pages: Iterable[Page]) -> "LocalWeb":
        web = cls()
        for page in pages:
            web.add(page)
        return web

    def add(self, page: Page) -> None:
        self.pages[page.url] = page
        self._index.add(page.url, [Field(page.title, weight=2.0), Field(page.text)])

    async def read(self, url: str, *, circuit: str, fresh: bool = False, progress: Progress | None = None) -> Page:
        self.reads.append(url)
        self.on_read(url)
        if self.hold is not None:
            await self.hold.wait()
        if url in self.broken or url not in self.pages:
            raise ToolFailure(
                f"{url} answered with status 500.", failure_class=FailureClass.RETRYABLE, reason="http_500"
            )
        return self.pages[url]

    async def cached(self, sha256: str) -> Page | None:
        return next((page for page in self.pages.values() if page.sha256 == sha256), None)

    async def search(
        self,
        query: str,
        *,
        circuit: str,
        page: int = 1,
        region: str = "",
        time_range: TimeRange = "",
        most: int = 10,
        progress: Progress | None = None,
    ) -> SearchHits:
        self.searches.append(query)
        if self.silent:
            await asyncio.Event().wait()
        if self.offline:
            raise ToolFailure("Tor is not running. Start it.", failure_class=FailureClass.FATAL, reason="no_route")
        ranked = [url for url, _ in self._index.search(query, most)]
        # A search engine fills its page with results that have little to do with the query.
        found = [self.pages[url] for url in list(dict.fromkeys([*ranked, *self.pages]))[:most]]
        hits = tuple(SearchHit(each.title, each.url, each.text[:150], each.date) for each in found)
        return SearchHits(query, hits, "local", "local")
