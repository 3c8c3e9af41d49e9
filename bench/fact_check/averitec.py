"""Reads the claims of AVeriTeC, and makes a small web from the evidence of each claim."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from builtin_tools.web.contract import Page, Progress, SearchHit, SearchHits, TimeRange
from builtin_tools.web.research.fact_checking.evidence import FactVerdict
from engine.contract.failure import ToolFailure
from engine.retrieval.bm25 import Bm25
from engine.retrieval.document import Field

FILE = "dev250.json"
HELP = f"Give the folder that contains averitec/{FILE} (AVeriTeC, Schlichtkrull et al. 2023)."
LABELS = {
    "Supported": FactVerdict.SUPPORTED,
    "Refuted": FactVerdict.REFUTED,
    "Conflicting Evidence/Cherrypicking": FactVerdict.CONFLICTING,
    "Not Enough Evidence": FactVerdict.NOT_ENOUGH_EVIDENCE,
}
DISTRACTORS = 3  # pages of other claims in the web of a claim


@dataclass(frozen=True, slots=True)
class AveritecClaim:
    """A claim with its questions and the pages with their answers.

    Attributes:
        answers: The text of the evidence on each page, by URL.
    """

    number: int
    text: str
    label: FactVerdict
    questions: tuple[str, ...]
    pages: tuple[Page, ...]
    answers: dict[str, str]


def read_claims(path: Path) -> list[AveritecClaim]:
    """Read the file with the claims."""
    return [_claim(number, each) for number, each in enumerate(json.loads(path.read_text("utf-8")))]


class EvidenceWeb:
    """The pages of one claim and a few of others, as a `WebSearch` and a `PageReader`."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self.pages = {page.url: page for page in pages}
        self._index = Bm25()
        for page in pages:
            self._index.add(page.url, [Field(page.title, weight=2.0), Field(page.text)])

    async def read(  # the signatures are those of the protocols
        self,
        url: str,
        *,
        circuit: str,  # noqa: ARG002
        fresh: bool = False,  # noqa: ARG002
        progress: Progress | None = None,  # noqa: ARG002
    ) -> Page:
        """Return a page."""
        if url not in self.pages:
            raise ToolFailure(f"There is no page at {url}.", reason="http_404")
        return self.pages[url]

    async def cached(self, sha256: str) -> Page | None:
        """Return the page with a digest."""
        return next((page for page in self.pages.values() if page.sha256 == sha256), None)

    async def search(
        self,
        query: str,
        *,
        circuit: str,  # noqa: ARG002
        page: int = 1,  # noqa: ARG002
        region: str = "",  # noqa: ARG002
        time_range: TimeRange = "",  # noqa: ARG002
        most: int = 10,
        progress: Progress | None = None,  # noqa: ARG002
    ) -> SearchHits:
        """Return the pages that contain words of the query."""
        found = [self.pages[url] for url, _ in self._index.search(query, most)]
        hits = tuple(SearchHit(each.title, each.url, each.text[:150], each.date) for each in found)
        return SearchHits(query, hits, "local", "local")


def _claim(number: int, entry: dict[str, Any]) -> AveritecClaim:
    texts: dict[str, list[tuple[str, str]]] = {}
    for question in entry["questions"]:
        for at, answer in enumerate(question["answers"]):
            if answer["answer_type"] == "Unanswerable":
                continue
            said = f"{answer['answer']} {answer.get('boolean_explanation', '')}".strip()
            url = answer.get("source_url") or ""
            key = url if url.startswith("http") else f"https://evidence{number}-{len(texts)}-{at}.example/"
            texts.setdefault(key, []).append((question["question"], said))
    pages = tuple(_page(url, parts) for url, parts in texts.items())
    answers = {url: "\n\n".join(said for _, said in parts) for url, parts in texts.items()}
    questions = tuple(each["question"] for each in entry["questions"])
    return AveritecClaim(number, entry["claim"], LABELS[entry["label"]], questions, pages, answers)


def _page(url: str, parts: Sequence[tuple[str, str]]) -> Page:
    text = "\n\n".join(f"{question}\n{said}" for question, said in parts)
    text += "\n\nThis page is a part of the local web of a benchmark, which has no other content."
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Page(url, url, text, digest, datetime.now(UTC), "local", title=parts[0][0])
