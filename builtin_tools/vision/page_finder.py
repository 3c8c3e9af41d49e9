"""`PageFinder`: finds the pages of a document that a query is about."""

import asyncio
import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.stores.embedder import Embedder

MOST_MATCHES = 3  # pages that a query selects


class PageFinder:
    """Finds pages by a query. It loads the embedder when it is first used."""

    def __init__(self, embedder: "Callable[[], Embedder]") -> None:
        self._embedder = embedder

    async def find(self, texts: Sequence[str], query: str) -> list[int]:
        """Return the numbers of up to `MOST_MATCHES` pages that match a query best, from 1, sorted.

        Args:
            texts: The text of each page.
            query: What the pages should be about.
        """
        return sorted(await asyncio.to_thread(self._best, texts, query))

    def _best(self, texts: Sequence[str], query: str) -> list[int]:
        ranking = importlib.import_module("builtin_tools.vision.page_ranking")  # imports numpy
        best: list[int] = ranking.best_pages(texts, query, MOST_MATCHES, self._embedder())
        return best
