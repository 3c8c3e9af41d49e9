"""Asks the model for sub-questions and for an answer with quotations, within the budget and with the journal."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from builtin_tools.web.research.budget import RemainingBudget, tokens_of
from builtin_tools.web.research.journal import ResearchJournal
from builtin_tools.web.research.passages import ranked, split_pages
from builtin_tools.web.research.prompts import (
    ANSWER_TOKENS,
    MOST_QUESTIONS,
    QUESTIONS_SYSTEM,
    QUESTIONS_TOKENS,
    SYNTHESIS_SYSTEM,
    UnreadableAnswer,
    questions_by_rule,
    read_claims,
    read_questions,
    synthesis_prompt,
)
from builtin_tools.web.research.verification.claims import GivenClaim, NumberedPage
from engine.contract.failure import ToolFailure
from engine.contract.ports import LlmClient

if TYPE_CHECKING:
    from engine.stores.embedder import Embedder  # imports numpy, which listing tools must not load

LEAST_TOKENS = 2_000  # a smaller rest of the budget is not enough for an answer
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class BudgetedModel:
    """A model whose answers are journaled and count against the budget."""

    model: LlmClient
    journal: ResearchJournal
    remaining: RemainingBudget

    async def ask(
        self, prompt: str, system: str, read: Callable[[str], _Answer], *, max_tokens: int = ANSWER_TOKENS
    ) -> _Answer:
        """Return an answer of the model after reading it. An unreadable answer is asked for once more.

        Raises:
            ToolFailure: The model failed, the budget of tokens is used up, or both answers are unreadable.
        """
        problem = ""
        for _ in range(2):
            text = f"{prompt}\n\nYour last answer could not be used: {problem}." if problem else prompt
            answer = await self._answer(text, system, max_tokens)
            try:
                return read(answer)
            except UnreadableAnswer as error:
                problem = str(error)[:300]
        raise ToolFailure(f"The model's answer cannot be used: {problem}.", reason="unreadable_answer")

    async def _answer(self, prompt: str, system: str, max_tokens: int) -> str:
        known = self.journal.answer(system + prompt)
        if known is not None:
            return known
        if self.remaining.tokens < tokens_of(system + prompt):
            raise ToolFailure(
                f"The budget of {self.remaining.budget.tokens} tokens is used up. Call again with a larger one.",
                reason="budget_used",
            )
        answer = await self.model.complete(prompt, system=system, max_tokens=max_tokens)
        self.remaining.spend(system, prompt, answer)
        await asyncio.to_thread(self.journal.add_answer, system + prompt, answer)
        return answer


async def sub_questions(model: BudgetedModel | None, question: str) -> tuple[str, ...]:
    """Return the question and its sub-questions: by the model or, if there is none or it fails, by rule."""
    if model is None:
        return questions_by_rule(question)
    system = QUESTIONS_SYSTEM.format(most=MOST_QUESTIONS)
    try:
        return await model.ask(
            f"Question: {question}",
            system,
            lambda answer: read_questions(answer, question),
            max_tokens=QUESTIONS_TOKENS,
        )
    except ToolFailure:
        return questions_by_rule(question)


async def synthesize(
    model: BudgetedModel,
    questions: Sequence[str],
    sources: Sequence[NumberedPage],
    embedder: "Callable[[], Embedder]",
) -> list[GivenClaim]:
    """Return the claims with which the model answers a question, not checked yet.

    Raises:
        ToolFailure: The model failed, or the budget of tokens is used up.
    """
    room = model.remaining.tokens - ANSWER_TOKENS
    if room < LEAST_TOKENS:
        raise ToolFailure(
            f"The budget of {model.remaining.budget.tokens} tokens is used up. Call again with a larger one.",
            reason="budget_used",
        )
    folder = model.journal.folder
    passages = await asyncio.to_thread(
        lambda: ranked(questions, split_pages(sources), embedder(), room * 3 // 4, folder)
    )
    prompt = synthesis_prompt(questions[0], questions, sources, passages)
    return await model.ask(prompt, SYNTHESIS_SYSTEM, read_claims)
