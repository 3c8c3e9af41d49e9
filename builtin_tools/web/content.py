"""Creates what reads pages and searches the web, from the configuration."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from builtin_tools.web.cached_files import CachedFiles
from builtin_tools.web.contract import PageReader, WebClient, WebSearch
from builtin_tools.web.pages.fetch_page import fetch_page
from builtin_tools.web.pages.page_cache import PageCache
from builtin_tools.web.pages.reader import BoxedPageReader
from builtin_tools.web.pages.settings import PageSettings
from builtin_tools.web.search.duckduckgo import DuckDuckGo
from builtin_tools.web.search.engines import SearchEngine
from builtin_tools.web.search.searxng import SearXng
from builtin_tools.web.search.service import CachedWebSearch
from builtin_tools.web.search.settings import SearchSettings
from builtin_tools.web.search.web_search import web_search
from engine.contract.context import Clock
from sandbox.contract import Sandbox

CONTENT_TOOLS = (fetch_page, web_search)


def content_services(
    client: WebClient, sandbox: Sandbox, cache: Path, clock: Clock, *, pages: PageSettings, search: SearchSettings
) -> Mapping[type, Any]:
    """Return the services of the tools `fetch_page` and `web_search`, by class. Nothing is read or sent.

    Args:
        client: Sends the requests.
        sandbox: Runs the boxes in which pages are read.
        cache: The folder for pages and results.
        clock: The current time.
        pages: The settings of pages.
        search: The settings of the search.
    """
    reader = BoxedPageReader(
        client, sandbox, PageCache(cache / "pages", pages.keep_bytes), clock, timedelta(seconds=pages.fresh_s)
    )
    engine: SearchEngine = (
        SearXng(client, search.searxng) if search.searxng else DuckDuckGo(client, sandbox, ca_file=search.ca_file)
    )
    results = CachedFiles(cache / "searches", search.keep_bytes)
    found = CachedWebSearch(engine, results, clock, timedelta(seconds=search.fresh_s))
    return {BoxedPageReader: reader, PageReader: reader, CachedWebSearch: found, WebSearch: found}
