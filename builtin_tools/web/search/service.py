"""`CachedWebSearch`: searches with an engine, merges results of the same page, and keeps the results."""

import asyncio
import hashlib
import json
import logging
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

from builtin_tools.web.cached_files import CachedFiles
from builtin_tools.web.contract import Progress, SearchHit, SearchHits, TimeRange
from builtin_tools.web.search.engines import SearchEngine, SearchRequest
from builtin_tools.web.search.same_page import merge_same_pages
from engine.contract.context import Clock, no_progress

log = logging.getLogger(__name__)


class CachedWebSearch:
    """Implements `WebSearch`."""

    def __init__(self, engine: SearchEngine, cache: CachedFiles, clock: Clock, fresh_for: timedelta) -> None:
        """Create the search.

        Args:
            engine: Searches.
            cache: Keeps the results.
            clock: The current time.
            fresh_for: How long kept results are returned without a new request.
        """
        self._engine = engine
        self._cache = cache
        self._clock = clock
        self._fresh_for = fresh_for

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

        Raises:
            ToolFailure: The engine refused the request, is not available, or answered with a page that is not a page of
                results.
        """
        request = SearchRequest(" ".join(query.split()), page, region, time_range)
        kept = await asyncio.to_thread(self._kept, request)
        if kept is not None and kept.cached_at is not None:
            age = self._clock.now() - kept.cached_at
            if timedelta(0) <= age < self._fresh_for:
                return replace(kept, hits=kept.hits[:most])
        answer = await self._engine.search(request, circuit=circuit, progress=progress or no_progress)
        merged = merge_same_pages(answer.hits)
        found = SearchHits(request.query, merged, self._engine.name, answer.route, more=answer.more)
        try:
            await asyncio.to_thread(self._keep, request, found)
        except OSError as error:  # the results themselves can be used
            log.warning("Search results cannot be kept: %s", error)
        return replace(found, hits=merged[:most], more=found.more or len(merged) > most)

    async def cached(
        self, query: str, *, page: int = 1, region: str = "", time_range: TimeRange = ""
    ) -> SearchHits | None:
        """Return the results that were last found for a query, however old; None if there are none."""
        return await asyncio.to_thread(self._kept, SearchRequest(" ".join(query.split()), page, region, time_range))

    def _kept(self, request: SearchRequest) -> SearchHits | None:
        found = self._cache.get(self._key(request))
        return None if found is None else _hits(found)

    def _keep(self, request: SearchRequest, hits: SearchHits) -> None:
        fields = asdict(hits) | {"cached_at": self._clock.now().isoformat()}
        self._cache.put(self._key(request), fields)

    def _key(self, request: SearchRequest) -> str:
        text = json.dumps([self._engine.name, *asdict(request).values()], ensure_ascii=False)
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _hits(found: dict[str, Any]) -> SearchHits | None:
    """Return stored results; None if they are damaged."""
    try:
        return SearchHits(
            query=str(found["query"]),
            hits=tuple(
                SearchHit(str(each["title"]), str(each["url"]), str(each["snippet"]), str(each["date"]))
                for each in found["hits"]
            ),
            engine=str(found["engine"]),
            route=str(found["route"]),
            cached_at=datetime.fromisoformat(found["cached_at"]),
            more=bool(found["more"]),
        )
    except (KeyError, TypeError, ValueError):
        return None
