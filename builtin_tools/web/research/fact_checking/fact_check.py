"""`fact_check`: checks a claim against web pages, with quotations for and against it."""

import asyncio
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from builtin_tools.web.research.budget import RemainingBudget, ResearchBudget
from builtin_tools.web.research.fact_checking.checking import FactChecking, FinishedCheck
from builtin_tools.web.research.fact_checking.evidence import CheckedEvidence, FactVerdict
from builtin_tools.web.research.gathering import Gathering
from builtin_tools.web.research.journal import ResearchJournal, research_key
from builtin_tools.web.research.plain_text import one_line
from builtin_tools.web.research.service import ResearchService
from builtin_tools.web.research.synthesis import BudgetedModel
from builtin_tools.web.research.verification.claims import NumberedPage
from builtin_tools.web.untrusted import mark_untrusted
from engine.contract.context import CallContext, Produced
from engine.contract.spec import Annotations
from engine.registry.decorate import tool

MOST_SECONDS = 600
_ENDING_S = 30.0  # on top of the time of a check
_WORDS = {
    FactVerdict.SUPPORTED: "The claim is supported",
    FactVerdict.REFUTED: "The claim is refuted",
    FactVerdict.CONFLICTING: "The evidence is conflicting",
    FactVerdict.NOT_ENOUGH_EVIDENCE: "There is not enough evidence",
}


class EvidenceOutput(TypedDict):
    """A quotation for or against the claim.

    Attributes:
        quote: The exact characters of the source's text from `start` to `end`.
        sha256: The hex digest of that text.
        date: The date of publication that the page states; "" if it states none.
        differences: What the quoted passage does not contain of the claim.
        counts: Whether it counts for the verdict.
    """

    stance: Literal["supports", "refutes"]
    quote: str
    start: int
    end: int
    sha256: str
    url: str
    title: str
    date: str
    differences: list[str]
    counts: bool


class FactCheckOutput(TypedDict):
    """The output of fact_check.

    Attributes:
        supporting, refuting: The numbers of independent sources for and against the claim.
        removed: The number of quotations that were removed, because they are not in the cited source.
        pages: The number of pages that were read.
        why: Why there is no verdict, or why the check is incomplete; "" otherwise.
    """

    claim: str
    verdict: Literal["supported", "refuted", "conflicting", "not_enough_evidence"]
    supporting: int
    refuting: int
    evidence: list[EvidenceOutput]
    removed: int
    pages: int
    why: str
    routes: list[str]


@tool(
    category="web_research",
    annotations=Annotations(read_only=True, idempotent=True),
    tier="high",
    cost="expensive",
    required_permission="user",
    side_effects=("network",),
    timeout_s=MOST_SECONDS + _ENDING_S,
    private_arguments=("claim",),
    short_description="Check a claim against web pages: supported, refuted, conflicting, or not enough evidence.",
)
async def fact_check(
    ctx: CallContext,
    claim: Annotated[str, Field(min_length=3, max_length=2_000)],
    pages: Annotated[int, Field(ge=2, le=40)] = 10,
    tokens: Annotated[int, Field(ge=8_000, le=1_000_000)] = 40_000,
    seconds: Annotated[int, Field(ge=10, le=MOST_SECONDS)] = 180,
) -> Produced[FactCheckOutput]:
    """Check a claim against several web pages, and return quotations for and against it.

    The verdict is computed from quotations that were found on the cited pages; sources that copy each other count once.
    A quotation with another number, date or negation than the claim does not count as support. The verdict says what
    the pages say, which may be wrong.

    Args:
        claim: The claim, as one full sentence that names people, places and times.
        pages: The largest number of pages to read.
        tokens: The largest number of tokens for the model.
        seconds: The longest time.
    """
    service = ctx.need(ResearchService)
    key = research_key(ctx.turn.user, ctx.turn.agent, "fact_check", {"claim": claim, "call": ctx.call_id})
    journal = await asyncio.to_thread(ResearchJournal, service.folder / key)
    remaining = RemainingBudget(ResearchBudget(pages, tokens, float(seconds)), ctx.clock.monotonic)
    checking = FactChecking(
        claim,
        Gathering(service.reader, service.search, journal, remaining, f"fact-check-{key}", ctx.progress),
        BudgetedModel(ctx.llm_client, journal, remaining) if ctx.llm_client is not None else None,
        service.embedder,
    )
    try:
        check = await checking.run()
    finally:
        await asyncio.shield(asyncio.to_thread(journal.discard))
    ctx.audit.update(pages=len(check.sources), tokens=remaining.used_tokens, verdict=check.judged.verdict.value)
    output = _output(claim, check)
    return Produced(output, _message(output, check.judged.verdict))


def _output(claim: str, check: FinishedCheck) -> FactCheckOutput:
    pages, judged = {each.number: each for each in check.sources}, check.judged
    return {
        "claim": claim,
        "verdict": judged.verdict.value,
        "supporting": judged.supporting,
        "refuting": judged.refuting,
        "evidence": [_evidence_output(each, pages[each.citation.source]) for each in judged.evidence],
        "removed": judged.removed,
        "pages": len(check.sources),
        "why": check.why,
        "routes": list(check.routes),
    }


def _evidence_output(evidence: CheckedEvidence, source: NumberedPage) -> EvidenceOutput:
    citation, page = evidence.citation, source.page
    return {
        "stance": evidence.stance,
        "quote": citation.quote,
        "start": citation.start,
        "end": citation.end,
        "sha256": citation.sha256,
        "url": page.final_url,
        "title": one_line(page.title, 200),
        "date": page.date,
        "differences": [str(each) for each in evidence.differences],
        "counts": evidence.counts,
    }


def _message(output: FactCheckOutput, verdict: FactVerdict) -> str:
    counts = f"{output['supporting']} independent sources for it, {output['refuting']} against it"
    facts = [f"{_WORDS[verdict]}: {counts}, {output['pages']} pages read."]
    facts += [output["why"]] if output["why"] else []
    if output["removed"]:
        facts.append(f"Quotations that were removed, because they are not in the cited source: {output['removed']}.")
    lines = []
    for each in output["evidence"]:
        dated = f", dated {each['date']}" if each["date"] else ""
        counted = "" if each["counts"] else f" (does not count: {'; '.join(each['differences'])})"
        lines.append(f"- {each['stance']}: “{one_line(each['quote'])}” ({one_line(each['url'])}{dated}){counted}")
    return "\n".join([*facts, mark_untrusted("\n".join(lines), "web pages")] if lines else facts)
