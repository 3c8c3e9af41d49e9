"""`ServedWeb`: the pages of the material on a local server, read in boxes and searched through SearXNG's protocol."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from builtin_tools.web.cached_files import CachedFiles
from builtin_tools.web.contract import Page, SearchHits
from builtin_tools.web.pages.page_cache import PageCache
from builtin_tools.web.pages.reader import BoxedPageReader
from builtin_tools.web.search.searxng import SearXng
from builtin_tools.web.search.service import CachedWebSearch
from engine.stores.clock import SystemClock
from sandbox.contract import Sandbox
from tests.builtin_tools.web.corpus.loopback import LoopbackClient
from tests.builtin_tools.web.corpus.server import serving_corpus
from tests.builtin_tools.web.corpus.sites import CorpusPage
from tests.builtin_tools.web.corpus.web import SEARXNG, CorpusWeb
from tests.builtin_tools.web.research.material_pages import WrittenPage

COMMON = "page"  # a word of every search, so that the search engine has further results


class ServedWeb:
    """The reader and the search of the web pack, with a client that reaches a server on loopback."""

    def __init__(self, port: int, sandbox: Sandbox, folder: Path) -> None:
        clock, fresh, client = SystemClock(), timedelta(days=1), LoopbackClient(port)
        self._reader = BoxedPageReader(client, sandbox, PageCache(folder / "pages", 64 << 20), clock, fresh)
        engine = SearXng(client, f"http://{SEARXNG}")
        self._search = CachedWebSearch(engine, CachedFiles(folder / "searches", 64 << 20), clock, fresh)

    async def read(self, url: str, **options: Any) -> Page:
        return await self._reader.read(url, **options)

    async def cached(self, sha256: str) -> Page | None:
        return await self._reader.cached(sha256)

    async def search(self, query: str, **options: Any) -> SearchHits:
        return await self._search.search(f"{query} {COMMON}", **options)


@contextmanager
def serving_pages(pages: list[WrittenPage], sandbox: Sandbox, folder: Path) -> Iterator[ServedWeb]:
    """Serve pages, and yield what reads and searches them."""
    with serving_corpus(CorpusWeb(map(served, pages))) as port:
        yield ServedWeb(port, sandbox, folder)


def served(page: WrittenPage) -> CorpusPage:
    """Return a page of the material for the server."""
    parts = urlsplit(page.url)
    return CorpusPage(
        parts.netloc, parts.path, content=page.html.replace(b"imprint", f"imprint of this {COMMON}".encode())
    )
