"""`SearchEngine`: what `CachedWebSearch` needs of a search engine, and how engines fail."""

from dataclasses import dataclass
from typing import Protocol

from builtin_tools.web.contract import Progress, SearchHit, TimeRange
from engine.contract.failure import FailureClass, ToolFailure

MOST_SNIPPET = 2_000
MOST_TITLE = 500
MOST_URL = 2_000


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A request for one page of results. The attributes are the arguments of `WebSearch.search`."""

    query: str
    page: int = 1
    region: str = ""
    time_range: TimeRange = ""


@dataclass(frozen=True, slots=True)
class EngineAnswer:
    """A page of results, as an engine returns it.

    Attributes:
        more: Whether a further page may have results.
        route: How the request left the machine, in words for people.
    """

    hits: tuple[SearchHit, ...]
    more: bool
    route: str


class SearchEngine(Protocol):
    """A search engine."""

    @property
    def name(self) -> str: ...

    async def search(self, request: SearchRequest, *, circuit: str, progress: Progress) -> EngineAnswer:
        """Return a page of results. It is empty only if the engine says that there are none.

        Raises:
            ToolFailure: The engine refused the request, is not available, or answered something else.
        """
        ...


class SearchFailure(ToolFailure):
    """A search engine gave no results. The same request is not repeated at once."""

    most_repeats = 0


def blocked(engine: str, detail: str, remedy: str, retry_after: float | None = None) -> SearchFailure:
    """Return the failure for an engine that refuses requests, for some time (RETRYABLE)."""
    return SearchFailure(
        f"{engine} refused the search ({detail}). This does not mean that there are no results. Try again in a few "
        f"minutes. {remedy}",
        failure_class=FailureClass.RETRYABLE,
        reason="search_blocked",
        retry_after=retry_after,
        may_have_started=False,
    )


def unavailable(engine: str, detail: str, retry_after: float | None = None) -> ToolFailure:
    """Return the failure for an engine that cannot be reached, or has an error of its own (RETRYABLE)."""
    return ToolFailure(
        f"{engine} could not be searched ({detail}).",
        failure_class=FailureClass.RETRYABLE,
        reason="search_unavailable",
        retry_after=retry_after,
        may_have_started=False,
    )


def changed(engine: str, detail: str, remedy: str) -> SearchFailure:
    """Return the failure for an answer that is not understood (UNKNOWN, so that a person learns of it)."""
    return SearchFailure(
        f"{engine} gave an answer that is not a page of results ({detail}). This does not mean that there are none. "
        f"{remedy}",
        failure_class=FailureClass.UNKNOWN,
        reason="search_changed",
        may_have_started=False,
    )


def tidy(title: object, url: object, snippet: object, date: object) -> SearchHit | None:
    """Return a hit from what an engine states, in limited lengths; None if its URL cannot be used."""
    target = str(url or "")
    if len(target) > MOST_URL or not target.startswith(("http://", "https://")) or not target.isprintable():
        return None
    words = (" ".join(str(each or "").split()) for each in (title, snippet, date))
    shown, text, day = words
    return SearchHit(shown[:MOST_TITLE] or target, target, text[:MOST_SNIPPET], day[:40])
