"""`SearXng`: searches with a SearXNG instance, through its JSON API."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from builtin_tools.web.contract import Progress, WebClient, WebResponse
from builtin_tools.web.search.engines import EngineAnswer, SearchRequest, blocked, changed, tidy
from engine.contract.failure import ToolFailure
from engine.contract.strict_json import JsonError, read_json

MOST_BYTES = 8 << 20
_JSON = "Add json to search.formats in the settings of the instance."
_REMEDY = "Look at the settings of the instance, or set another one in [packs.web.search]."


class SearXng:
    """Implements `SearchEngine`."""

    name = "SearXNG"

    def __init__(self, client: WebClient, url: str) -> None:
        """Create the engine.

        Args:
            client: Sends the requests.
            url: The address of the instance, without ``/search``.
        """
        self._client = client
        self._url = url.rstrip("/")

    async def search(self, request: SearchRequest, *, circuit: str, progress: Progress) -> EngineAnswer:
        """Return a page of results. It is empty only if the instance says that there are none.

        Raises:
            ToolFailure: The instance is not available, or its engines did not answer.
        """
        parameters = {"q": request.query, "format": "json", "pageno": str(request.page), "safesearch": "1"}
        if request.region:
            parameters["language"] = _language(request.region)
        if request.time_range:
            parameters["time_range"] = request.time_range
        progress(f"searching with {self.name}", None)
        response = await self._get(f"{self._url}/search?{urlencode(parameters)}", circuit, progress)
        try:
            found = await asyncio.to_thread(read_json, response.data)
        except JsonError as error:
            raise changed(self.name, "it is not JSON", _JSON) from error
        if not isinstance(found, Mapping) or not isinstance(found.get("results"), list):
            raise changed(self.name, "it has no list of results", _REMEDY)
        hits = [_hit(each) for each in found["results"] if isinstance(each, Mapping)]
        usable = tuple(hit for hit in hits if hit is not None)
        if not usable:
            self._check_empty(found, len(found["results"]))
        return EngineAnswer(usable, more=bool(usable), route=response.route)

    async def _get(self, url: str, circuit: str, progress: Progress) -> WebResponse:
        try:
            return await self._client.get(url, circuit=circuit, max_bytes=MOST_BYTES, progress=progress)
        except ToolFailure as failure:
            if failure.reason != "http_status":
                raise
            # SearXNG answers 403 if its settings do not allow JSON.
            raise changed(self.name, str(failure), _JSON) from failure

    def _check_empty(self, found: Mapping[str, Any], listed: int) -> None:
        """Check that an answer without usable results means that there are none.

        Raises:
            ToolFailure: The engines behind the instance did not answer, or no result has a URL.
        """
        silent = found.get("unresponsive_engines")
        if isinstance(silent, list) and silent:
            detail = ", ".join(" ".join(str(each).split())[:80] for each in silent[:5])
            raise blocked(self.name, f"its search engines did not answer: {detail}", _REMEDY)
        if listed:
            raise changed(self.name, "no result has a usable URL", _REMEDY)


def _hit(found: Mapping[str, Any]) -> Any:
    date = found.get("publishedDate")
    return tidy(found.get("title"), found.get("url"), found.get("content"), str(date)[:10] if date else "")


def _language(region: str) -> str:
    """Return a region such as ``de-ch`` (language and country, or the other way round) as SearXNG names it.

    DuckDuckGo's regions begin with the country.
    """
    country, _, language = region.partition("-")
    return "all" if region == "wt-wt" else f"{language}-{country.upper()}" if language else country
