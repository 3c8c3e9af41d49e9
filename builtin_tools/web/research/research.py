"""`Research`: one research from the question to the checked claims.

The steps are: derive sub-questions, search, read pages, rank passages, let the model write an answer with quotations,
and check every claim of it without the model (`verification`). Each step is journaled, so it can be continued.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from builtin_tools.web.contract import PageReader, Progress, WebSearch
from builtin_tools.web.research.budget import RemainingBudget
from builtin_tools.web.research.disagreements import disagreements_of
from builtin_tools.web.research.gathering import Gathering, numbered
from builtin_tools.web.research.journal import ResearchJournal
from builtin_tools.web.research.result import ResearchResult
from builtin_tools.web.research.synthesis import BudgetedModel, sub_questions, synthesize
from builtin_tools.web.research.verification.claims import CheckedClaim, GivenClaim, NumberedPage, check_claims
from engine.contract.failure import ToolFailure
from engine.contract.ports import LlmClient

if TYPE_CHECKING:
    from engine.stores.embedder import Embedder  # imports numpy, which listing tools must not load

LEAST_SOURCES = 2  # fewer pages are no research
_GATHERING = 0.6  # of the time; the rest is for the model and the report
_NO_MODEL = "No model is configured, so these are the search results, without an answer."


@dataclass(slots=True)
class Research:
    """One research.

    Attributes:
        journal: What was found so far.
        model: None if no model is configured.
        circuit: The name of the task for the network route.
    """

    question: str
    reader: PageReader
    search: WebSearch
    journal: ResearchJournal
    remaining: RemainingBudget
    embedder: "Callable[[], Embedder]"
    model: LlmClient | None
    circuit: str
    progress: Progress
    _claims: list[CheckedClaim] = field(default_factory=list)
    _fallback: str = ""
    _partial: str = ""

    async def run(self) -> ResearchResult:
        """Return the result, which is partial if the time is used up.

        Raises:
            ToolFailure: No search succeeded, and nothing was found by an earlier call.
        """
        model = BudgetedModel(self.model, self.journal, self.remaining) if self.model is not None else None
        try:
            async with asyncio.timeout(self.remaining.seconds * _GATHERING):
                questions = await self._questions(model)
                await self._gathering().run(questions)
        except TimeoutError:
            self._gathering().require_hits()
            self._partial = "The time was used up before all pages were read. Call again to continue."
        sources = self.sources
        if model is None:
            self._fallback = _NO_MODEL
        elif len(sources) < LEAST_SOURCES:
            self._fallback = (
                f"Only {len(sources)} of the pages that were found could be read, too few for an answer. These are the "
                "search results."
            )
        else:
            await self._answer(model, sources)
        return await asyncio.to_thread(self.result)

    @property
    def sources(self) -> list[NumberedPage]:
        """The pages that were read, numbered."""
        return numbered(self.journal.pages, self._gathering().candidates(self.journal.questions))

    def result(self, partial: str = "") -> ResearchResult:
        """Return what has been found so far.

        Args:
            partial: Why the research is incomplete, if the caller has ended it.
        """
        journal = self.journal
        routes = [*(each.route for each in journal.hits.values()), *(each.route for each in journal.pages)]
        return ResearchResult(
            question=self.question,
            questions=journal.questions or (self.question,),
            sources=tuple(self.sources),
            claims=tuple(self._claims),
            disagreements=tuple(disagreements_of(self._claims)),
            hits=tuple(self._gathering().candidates(journal.questions)),
            fallback=self._fallback,
            partial=partial or self._partial,
            notes=tuple(f"{url} could not be read: {why}" for url, why in sorted(journal.failures.items())),
            routes=tuple(dict.fromkeys(filter(None, routes))),
        )

    async def _questions(self, model: BudgetedModel | None) -> Sequence[str]:
        if not self.journal.questions:
            self.progress("deriving sub-questions", 0.05)
            found = await sub_questions(model, self.question)
            await asyncio.to_thread(self.journal.add_questions, found)
        return self.journal.questions

    async def _answer(self, model: BudgetedModel, sources: Sequence[NumberedPage]) -> None:
        self.progress(f"writing an answer from {len(sources)} sources", 0.75)
        try:
            async with asyncio.timeout(self.remaining.seconds):
                claims = await synthesize(model, self.journal.questions, sources, self.embedder)
        except TimeoutError:
            self._partial = "The time was used up before the model had answered. Call again to continue."
            self._fallback = "There is no answer yet. These are the search results."
            return
        except ToolFailure as error:
            self._fallback = f"{error} These are the search results, without an answer."
            return
        self.progress(f"checking {len(claims)} claims", 0.95)
        await self._check(sources, claims)

    async def _check(self, sources: Sequence[NumberedPage], claims: Sequence[GivenClaim]) -> None:
        self._claims = await asyncio.to_thread(check_claims, sources, claims)
        if not any(each.state.kept for each in self._claims):
            self._fallback = (
                "No sentence of the answer had a quotation that could be confirmed, so the answer was removed. These "
                "are the search results."
            )

    def _gathering(self) -> Gathering:
        return Gathering(self.reader, self.search, self.journal, self.remaining, self.circuit, self.progress)
