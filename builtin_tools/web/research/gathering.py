"""Searches for the questions of a research, and reads the pages that were found, within the budget."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from builtin_tools.web.contract import Page, PageReader, Progress, SearchHit, WebSearch
from builtin_tools.web.research.budget import RemainingBudget
from builtin_tools.web.research.journal import ResearchJournal
from builtin_tools.web.research.verification.claims import NumberedPage
from builtin_tools.web.search.same_page import page_key
from engine.contract.failure import FailureClass, ToolFailure

SEARCHES_AT_ONCE = 2
PAGES_AT_ONCE = 4
HITS_PER_QUESTION = 8
LEAST_CHARACTERS = 80  # a page with less text is a consent form or an error


@dataclass(frozen=True, slots=True)
class Gathering:
    """Fills the journal of a research with results and pages.

    Attributes:
        circuit: The name of the task for the network route.
    """

    reader: PageReader
    search: WebSearch
    journal: ResearchJournal
    remaining: RemainingBudget
    circuit: str
    progress: Progress

    async def run(self, questions: Sequence[str]) -> None:
        """Search and read. What has been found is in the journal, even if this is cancelled or fails later.

        Raises:
            ToolFailure: No search succeeded.
        """
        await self._search(questions)
        await self._read(self.candidates(questions))

    def require_hits(self) -> None:
        """Fail if the time was used up before any search succeeded, for example because Tor cannot connect.

        Raises:
            ToolFailure: No search has succeeded (FATAL).
        """
        if not self.journal.hits:
            raise ToolFailure(
                "No search succeeded before the time was used up. Check the network route with `knackbox doctor`, then "
                "call again.",
                failure_class=FailureClass.FATAL,
                reason="search_timeout",
            )

    def candidates(self, questions: Sequence[str]) -> list[SearchHit]:
        """Return the results of all questions without duplicates. The questions take turns."""
        lists = [self.journal.hits[each].hits for each in questions if each in self.journal.hits]
        found: dict[str, SearchHit] = {}
        for rank in range(HITS_PER_QUESTION):
            for hits in lists:
                if rank < len(hits):
                    found.setdefault(page_key(hits[rank].url), hits[rank])
        return list(found.values())

    async def _search(self, questions: Sequence[str]) -> None:
        free = asyncio.Semaphore(SEARCHES_AT_ONCE)
        failures: list[ToolFailure] = []

        async def one(question: str) -> None:
            async with free:
                self.progress(f"searching: {question}", 0.1)
                try:
                    hits = await self.search.search(question, circuit=self.circuit, most=HITS_PER_QUESTION)
                except ToolFailure as error:
                    failures.append(error)
                    return
                await asyncio.to_thread(self.journal.add_hits, question, hits)

        async with asyncio.TaskGroup() as group:
            for question in questions:
                if question not in self.journal.hits:
                    group.create_task(one(question))
        if failures and not self.journal.hits:
            raise failures[0]

    async def _read(self, candidates: Sequence[SearchHit]) -> None:
        known = {page_key(url) for page in self.journal.pages for url in (page.url, page.final_url)}
        known |= {page_key(url) for url in self.journal.failures}
        most = self.remaining.budget.pages
        left = max(0, most - len(self.journal.pages) - len(self.journal.failures))
        wanted = [hit.url for hit in candidates if page_key(hit.url) not in known][:left]
        free = asyncio.Semaphore(PAGES_AT_ONCE)

        async def one(url: str) -> None:
            async with free:
                done = len(self.journal.pages)
                self.progress(f"reading page {done + 1} of up to {min(most, len(candidates))}", 0.2 + 0.5 * done / most)
                try:
                    page = await self.reader.read(url, circuit=self.circuit)
                except ToolFailure as error:
                    await asyncio.to_thread(self.journal.add_failure, url, str(error)[:300])
                    return
                await asyncio.to_thread(self._keep, page)

        async with asyncio.TaskGroup() as group:
            for url in wanted:
                group.create_task(one(url))

    def _keep(self, page: Page) -> None:
        if len(page.text.strip()) < LEAST_CHARACTERS:
            self.journal.add_failure(page.url, "the page has hardly any text")
        else:
            self.journal.add_page(page)


def numbered(pages: Sequence[Page], candidates: Sequence[SearchHit]) -> list[NumberedPage]:
    """Return the pages in the order of the results, numbered from 1. Pages with the same text are one source."""
    rank = {page_key(hit.url): at for at, hit in enumerate(candidates)}
    ordered = sorted(pages, key=lambda page: rank.get(page_key(page.url), len(rank)))
    distinct = {page.sha256: page for page in reversed(ordered)}
    return [NumberedPage(number, page) for number, page in enumerate(reversed(distinct.values()), 1)]
