"""What the parts of the web pack give each other: responses, pages, search results, and who provides them.

`route` implements `WebClient`, `pages` implements `PageReader`, and `search` implements `WebSearch`. `research` uses
all three and knows only this file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

Progress = Callable[..., None]  # as `CallContext.progress`
TimeRange = Literal["", "day", "week", "month", "year"]


@dataclass(frozen=True, slots=True)
class WebResponse:
    """A successful response to a GET request, after all redirects.

    Attributes:
        url: The URL after all redirects.
        media_type: The media type in lower case, without parameters; "" if the server states none.
        charset: The charset that the server states; "" if it states none.
        data: The decompressed body.
        route: How the request left the machine, in words for people, such as ``"Tor"`` or ``"direct"``.
    """

    url: str
    media_type: str
    charset: str
    headers: Mapping[str, str]
    data: bytes
    route: str
    fetched_at: datetime


class WebClient(Protocol):
    """Sends requests over the configured network route, and over no other."""

    async def get(
        self, url: str, *, circuit: str, max_bytes: int | None = None, progress: Progress | None = None
    ) -> WebResponse:
        """Request a URL.

        Redirects are followed, and each target is checked like the first. The limits per host, of size and of time
        apply, and so does robots.txt.

        Args:
            url: An http(s) URL.
            circuit: Names the task that the request belongs to. Tor never uses one circuit for two names.
            max_bytes: The largest body; None for the configured limit.
            progress: Receives the state of the route and the completed share.

        Raises:
            ToolFailure: The route is not available, the target is refused, or the server failed. The message says what
                a person can do.
        """
        ...

    async def proxy_of(self, host: str, *, circuit: str) -> tuple[str | None, str]:
        """Return the proxy URL for a library that sends its own requests to this host, and the name of the route.

        The URL has the form ``socks5h://…``, so that the proxy resolves names. It is None for a direct route. Waits
        until the route is ready and the host's rate limit allows a request.

        Raises:
            ToolFailure: The route is not available.
        """
        ...


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link of a page: its absolute URL and its text."""

    url: str
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page that was read in a box. Its text is data of strangers, never instructions.

    Attributes:
        url: The URL that was requested.
        final_url: The URL after redirects.
        text: The main text. Offsets of quotes are offsets into it, in characters.
        sha256: The hex digest of the text in UTF-8. `PageReader.cached` finds the page by it.
        date: The date of publication that the page states, as YYYY-MM-DD; "" if it states none.
        media_type: Of the document, such as ``text/html`` or ``application/pdf``.
        page_starts: For documents with pages, the offset at which each page begins.
        notes: What a person should know, such as that invisible text was removed.
    """

    url: str
    final_url: str
    text: str
    sha256: str
    fetched_at: datetime
    route: str
    title: str = ""
    date: str = ""
    author: str = ""
    media_type: str = ""
    links: tuple[PageLink, ...] = ()
    page_starts: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


class PageReader(Protocol):
    """Reads pages, and keeps what was read, so that a cited page can be shown later."""

    async def read(self, url: str, *, circuit: str, fresh: bool = False, progress: Progress | None = None) -> Page:
        """Return the page at a URL, from the cache unless it is too old or `fresh` is set.

        Raises:
            ToolFailure: The page cannot be requested or read.
        """
        ...

    async def cached(self, sha256: str) -> Page | None:
        """Return the page whose text has this digest; None if it is not in the cache."""
        ...


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One search result.

    Attributes:
        date: As the search engine states it; "" if it states none.
    """

    title: str
    url: str
    snippet: str
    date: str = ""


@dataclass(frozen=True, slots=True)
class SearchHits:
    """The results of one search.

    Attributes:
        engine: Who searched, such as ``"DuckDuckGo"``.
        cached_at: When the results were fetched, if they are from the cache.
        more: Whether a further page may have results.
    """

    query: str
    hits: tuple[SearchHit, ...]
    engine: str
    route: str
    cached_at: datetime | None = None
    more: bool = False


class WebSearch(Protocol):
    """Searches the web."""

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
        """Return the results for a query. Without results, `hits` is empty, and the engine has said so itself.

        Args:
            query: The query.
            circuit: As for `WebClient.get`.
            page: The page of results, from 1.
            region: A region such as ``de-de``; "" for none.
            time_range: Only results of the last day, week, month or year; "" for all.
            most: The largest number of results.
            progress: Receives the state of the route.

        Raises:
            ToolFailure: The engine refused the request, is not available, or answered with a page that is not a page of
                results.
        """
        ...
