"""Writes a report with numbered references as Markdown, the sources as text files, and the citations as JSON.

`report_check` confirms such a report.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from builtin_tools.web.research.plain_text import in_markdown, one_line
from builtin_tools.web.research.result import ResearchResult, removals
from builtin_tools.web.research.verification.claims import CheckedClaim, ClaimState, NumberedPage
from engine.contract.context import Workspace

FOLDER = "research"
REPORT, CITATIONS, SOURCES = "report.md", "citations.json", "sources"
_SLUG = 40  # characters


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """The files of a report, as paths in the workspace.

    Attributes:
        files: All of them, the report last.
    """

    report: str
    files: tuple[str, ...]


def write_report(workspace: Workspace, result: ResearchResult, key: str) -> WrittenReport:
    """Write the report and its sources to the workspace. The report itself is written last.

    Raises:
        WorkspaceError: A path in the workspace is in the way.
    """
    folder = f"{FOLDER}/{_slug(result.question)}-{key[:8]}"
    files: dict[str, bytes] = {
        f"{folder}/{source_file(each)}": each.page.text.encode("utf-8") for each in result.sources
    }
    files[f"{folder}/{CITATIONS}"] = (json.dumps(citations_of(result), ensure_ascii=False, indent=1) + "\n").encode()
    files[f"{folder}/{REPORT}"] = markdown(result).encode("utf-8")
    for path, data in files.items():
        workspace.write(path, data)
    return WrittenReport(f"{folder}/{REPORT}", tuple(files))


def source_file(source: NumberedPage) -> str:
    """Return the path of a source's text, relative to the report."""
    return f"{SOURCES}/{source.number}-{source.page.sha256[:12]}.txt"


def citations_of(result: ResearchResult) -> dict[str, Any]:
    """Return the claims, citations and sources of a report as a JSON object, for `report_check`."""
    return {
        "question": result.question,
        "claims": [
            {
                "sentence": claim.text,
                "state": claim.state.value,
                "unsupported": [str(part) for part in claim.unsupported],
                "citations": [
                    {name: getattr(each, name) for name in ("source", "quote", "start", "end", "sha256")}
                    for each in claim.citations
                ],
            }
            for claim in result.kept
        ],
        "sources": [
            {
                "number": each.number,
                "url": each.page.final_url,
                "title": each.page.title,
                "date": each.page.date,
                "fetched_at": each.page.fetched_at.isoformat(),
                "route": each.page.route,
                "sha256": each.page.sha256,
                "file": source_file(each),
            }
            for each in result.sources
        ],
    }


def markdown(result: ResearchResult) -> str:
    """Return the report as Markdown. Text of pages and of the model contains no markup."""
    lines = [f"# {in_markdown(result.question)}", ""]
    for remark in (result.partial, result.fallback):
        lines += [f"**{in_markdown(remark)}**", ""] if remark else []
    references = reference_numbers(result)
    if result.kept:
        lines += ["## Findings", "", *(claim_line(claim, references) for claim in result.kept), ""]
    if result.disagreements:
        lines += ["## Sources disagree", "", "| one source | another source |", "|---|---|"]
        lines += [
            f"| {_cell(each.one, references)} | {_cell(each.other, references)} |" for each in result.disagreements
        ]
        lines.append("")
    if result.kept:
        lines += ["## References", "", *_references(result, references), ""]
    if result.fallback and result.hits:
        lines += ["## Search results", ""]
        lines += [
            f"- {in_markdown(hit.title)}, <{_url(hit.url)}>: {in_markdown(hit.snippet, 300)}" for hit in result.hits
        ]
        lines.append("")
    if result.sources:
        lines += ["## Sources", "", *(_source_line(each) for each in result.sources), ""]
    remarks = [*removals(result.claims), *result.notes]
    if remarks:
        lines += ["## Remarks", "", *(f"- {in_markdown(each)}" for each in remarks), ""]
    return "\n".join(lines)


def reference_numbers(result: ResearchResult) -> Mapping[tuple[int, int, int], int]:
    """Return the number of each reference by the source and the range of its quotation."""
    places = [(each.source, each.start, each.end) for claim in result.kept for each in claim.citations]
    return {place: number for number, place in enumerate(dict.fromkeys(places), 1)}


def claim_line(claim: CheckedClaim, references: Mapping[tuple[int, int, int], int]) -> str:
    """Return a claim as an item of a Markdown list, with its references and its label."""
    label = ""
    if claim.state is ClaimState.UNSUPPORTED:
        reasons = "; ".join(str(part) for part in claim.unsupported)
        label = f" **Not supported: {in_markdown(reasons)}.**"
    return f"- {_cell(claim, references)}{label}"


def _cell(claim: CheckedClaim, references: Mapping[tuple[int, int, int], int]) -> str:
    numbers = [references[each.source, each.start, each.end] for each in claim.citations]
    return in_markdown(claim.text) + "".join(f" [{number}]" for number in numbers)


def _references(result: ResearchResult, references: Mapping[tuple[int, int, int], int]) -> list[str]:
    quotes = {(each.source, each.start, each.end): each for claim in result.kept for each in claim.citations}
    return [
        f"{number}. “{in_markdown(quotes[place].quote)}” Source {place[0]}, characters {place[1]} to {place[2]}, "
        f"SHA-256 {quotes[place].sha256}."
        for place, number in references.items()
    ]


def _source_line(source: NumberedPage) -> str:
    page = source.page
    dated = f", dated {one_line(page.date, 20)}" if page.date else ""
    return (
        f"{source.number}. {in_markdown(page.title or page.final_url, 200)}, <{_url(page.final_url)}>{dated}, read on "
        f"{page.fetched_at:%Y-%m-%d %H:%M} UTC by the route {in_markdown(page.route, 60)}. Text: {source_file(source)}"
    )


def _url(url: str) -> str:
    return re.sub(r"[\s<>]", "", one_line(url))


def _slug(text: str) -> str:
    words = re.findall(r"[a-z0-9]+", text.casefold())
    slug = "-".join(words)[:_SLUG].strip("-")
    return slug or "question"
