"""`deep_research`: answers a question from many web pages, with quotations that were checked."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from builtin_tools.web.research.budget import RemainingBudget, ResearchBudget
from builtin_tools.web.research.journal import ResearchJournal, remove_abandoned, research_key
from builtin_tools.web.research.plain_text import one_line
from builtin_tools.web.research.report import WrittenReport, source_file, write_report
from builtin_tools.web.research.research import Research
from builtin_tools.web.research.result import ResearchResult, removals
from builtin_tools.web.research.service import ResearchService
from builtin_tools.web.research.verification.claims import Citation, ClaimState
from builtin_tools.web.untrusted import mark_untrusted
from engine.contract.context import CallContext, Produced
from engine.contract.failure import refusal
from engine.contract.spec import Annotations
from engine.registry.decorate import tool
from engine.stores.locks import StoreBusy

MOST_SECONDS = 900
_WRITING_S = 30.0  # on top of the time of a research, so that the report can still be written
_SAVING_S = 10.0  # for what was found by a call that is cancelled
_SHOWN_HITS = 10


class CitationOutput(TypedDict):
    """A quotation that is in its source.

    Attributes:
        source: The number of the source.
        quote: The exact characters of the source's text from `start` to `end`.
        sha256: The hex digest of the source's text.
    """

    source: int
    quote: str
    start: int
    end: int
    sha256: str


class ClaimOutput(TypedDict):
    """A sentence of the answer.

    Attributes:
        state: confirmed, or unsupported if its quotations do not contain all of it.
        unsupported: What the quotations do not contain.
    """

    sentence: str
    state: str
    citations: list[CitationOutput]
    unsupported: list[str]


class SourceOutput(TypedDict):
    """A page that was read.

    Attributes:
        date: The date of publication that the page states; "" if it states none.
        file: The file with its text, beside the report.
    """

    number: int
    title: str
    url: str
    date: str
    sha256: str
    file: str


class ResearchHitOutput(TypedDict):
    """A search result."""

    title: str
    url: str
    snippet: str


class ResearchOutput(TypedDict):
    """The output of deep_research.

    Attributes:
        complete: Whether there is an answer and nothing was left out for lack of time.
        fallback: ``"web_search"`` if there are only search results; "" if there is an answer.
        why: Why the research is incomplete, or why there are only search results.
        report: The report, as a path in the workspace.
        removed: What was removed from the model's answer, and why.
        disagreements: Pairs of sentences from different sources that contradict each other.
        results: The search results, if there is no answer.
        routes: How the requests left the machine.
    """

    question: str
    complete: bool
    fallback: Literal["", "web_search"]
    why: str
    report: str
    claims: list[ClaimOutput]
    sources: list[SourceOutput]
    removed: list[str]
    disagreements: list[list[str]]
    results: list[ResearchHitOutput]
    notes: list[str]
    routes: list[str]


@tool(
    category="web_research",
    annotations=Annotations(idempotent=True),
    tier="high",
    cost="expensive",
    required_permission="user",
    side_effects=("filesystem_write", "network"),
    timeout_s=MOST_SECONDS + _WRITING_S,
    private_arguments=("question",),
    short_description="Answer a question from many web pages, with checked quotations and a report.",
)
async def deep_research(
    ctx: CallContext,
    question: Annotated[str, Field(min_length=3, max_length=2_000)],
    pages: Annotated[int, Field(ge=2, le=40)] = 12,
    tokens: Annotated[int, Field(ge=8_000, le=1_000_000)] = 60_000,
    seconds: Annotated[int, Field(ge=10, le=MOST_SECONDS)] = 300,
) -> Produced[ResearchOutput]:
    """Answer a question from several web pages, and write a report with numbered references to the workspace.

    Every sentence has a quotation that was found on the cited page; sentences without one are removed. A number, date,
    name or negation that the quotation does not contain is marked as not supported: do not repeat it as a fact. If
    there is no answer, the search results are returned. After a cancellation the same call continues.

    For a single fact use `web_search`. To check a statement use `fact_check`.

    Args:
        question: The question, as a full sentence that names people and things.
        pages: The largest number of pages to read.
        tokens: The largest number of tokens for the model that writes the answer.
        seconds: The longest time. What was found by then is returned.
    """
    service = ctx.need(ResearchService)
    budget = ResearchBudget(pages, tokens, float(seconds))
    key = research_key(ctx.turn.user, ctx.turn.agent, "deep_research", {"question": question, "pages": pages})
    await asyncio.to_thread(remove_abandoned, service.folder, ctx.clock.now().timestamp())
    async with _journal(service, key) as journal:
        remaining = RemainingBudget(budget, ctx.clock.monotonic)
        research = Research(
            question=question,
            reader=service.reader,
            search=service.search,
            journal=journal,
            remaining=remaining,
            embedder=service.embedder,
            model=ctx.llm_client,
            circuit=f"research-{key}",
            progress=ctx.progress,
        )
        try:
            result = await research.run()
        except asyncio.CancelledError:
            await _save_partial(ctx, research, key)
            raise
        written = await asyncio.to_thread(write_report, ctx.workspace, result, key)
        if not result.partial:
            await asyncio.to_thread(journal.discard)
    ctx.audit.update(pages=len(result.sources), tokens=remaining.used_tokens, claims=len(result.kept))
    effects = tuple(f"created:{path}" for path in written.files)
    return Produced(research_output(result, written), _message(result, written), effects)


@asynccontextmanager
async def _journal(service: ResearchService, key: str) -> AsyncIterator[ResearchJournal]:
    """Open the journal of a research in a thread.

    Raises:
        ToolFailure: The same research is running (DIAGNOSTIC).
    """
    opened = ResearchJournal.opened(service.folder, key)
    try:
        journal = await asyncio.to_thread(opened.__enter__)
    except StoreBusy as error:
        raise refusal("The same research is running. Wait for its result.", "busy") from error
    async with AsyncExitStack() as stack:
        stack.callback(opened.__exit__, None, None, None)  # only closes a file
        yield journal


async def _save_partial(ctx: CallContext, research: Research, key: str) -> None:
    """Write what a cancelled research has found, if it has found anything."""
    if not research.journal.pages:
        return

    def write() -> None:
        write_report(ctx.workspace, research.result("The research was cancelled. Call again to continue."), key)

    writing = asyncio.create_task(asyncio.to_thread(write))
    await asyncio.wait([writing], timeout=_SAVING_S)


def research_output(result: ResearchResult, written: WrittenReport) -> ResearchOutput:
    """Return a result as a JSON object."""
    return {
        "question": result.question,
        "complete": not result.partial and not result.fallback,
        "fallback": "web_search" if result.fallback else "",
        "why": " ".join(each for each in (result.partial, result.fallback) if each),
        "report": written.report,
        "claims": [
            {
                "sentence": each.text,
                "state": each.state.value,
                "citations": [citation_output(citation) for citation in each.citations],
                "unsupported": [str(part) for part in each.unsupported],
            }
            for each in result.kept
        ],
        "sources": [
            {
                "number": each.number,
                "title": one_line(each.page.title, 200),
                "url": each.page.final_url,
                "date": each.page.date,
                "sha256": each.page.sha256,
                "file": source_file(each),
            }
            for each in result.sources
        ],
        "removed": removals(result.claims),
        "disagreements": [[each.one.text, each.other.text] for each in result.disagreements],
        "results": [
            {"title": one_line(hit.title, 200), "url": hit.url, "snippet": one_line(hit.snippet, 500)}
            for hit in result.hits[:_SHOWN_HITS]
        ]
        if result.fallback
        else [],
        "notes": list(result.notes),
        "routes": list(result.routes),
    }


def citation_output(citation: Citation) -> CitationOutput:
    """Return a citation as a JSON object."""
    return {
        "source": citation.source,
        "quote": citation.quote,
        "start": citation.start,
        "end": citation.end,
        "sha256": citation.sha256,
    }


def _message(result: ResearchResult, written: WrittenReport) -> str:
    """Return the text for the model: what the engine knows, and then the marked words of the pages and of the model."""
    facts = [each for each in (result.partial, result.fallback) if each]
    facts += [f"The report is in {written.report}.", *removals(result.claims)]
    lines = []
    for claim in result.kept:
        sources = ", ".join(str(each.source) for each in claim.citations)
        label = ""
        if claim.state is ClaimState.UNSUPPORTED:
            label = f" (NOT SUPPORTED: {'; '.join(str(part) for part in claim.unsupported)})"
        lines.append(f"- {one_line(claim.text)} [source {sources}]{label}")
    lines += [
        f"Sources disagree: “{one_line(pair.one.text)}” and “{one_line(pair.other.text)}”"
        for pair in result.disagreements
    ]
    lines += [
        f"Source {each.number}: {one_line(each.page.title, 200)} {one_line(each.page.final_url)}"
        for each in result.cited
    ]
    lines += [
        f"- {one_line(hit.title, 200)} {one_line(hit.url)}: {one_line(hit.snippet, 300)}"
        for hit in result.hits[: _SHOWN_HITS if result.fallback else 0]
    ]
    return "\n".join([*facts, mark_untrusted("\n".join(lines), "web pages")] if lines else facts)
