"""Claims about the pages of the material to be checked as facts, and the evidence that a scripted model gives for them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.agent.scripted_model import Reply, says
from tests.builtin_tools.web.research.material_pages import PARTS, pages_of
from tests.builtin_tools.web.research.scripted_claims import prompt_of, sources_of


@dataclass(frozen=True)
class PlannedFact:
    """A claim to be checked.

    Attributes:
        quote: A quotation that the model gives in support of it.
        url: The page with the quotation.
        holds: Whether the quotation supports the claim.
    """

    claim: str
    quote: str
    url: str
    holds: bool

    @property
    def invented(self) -> str:
        """A further quotation, which is on no page."""
        return f"It is beyond any doubt that {self.claim}"


def planned_facts(each: int = 2) -> list[PlannedFact]:
    """Return the first claims of each page: one that is true, and one in which something was changed.

    Args:
        each: Every how many pages claims are taken from.
    """
    found = []
    for page in [page for part in PARTS for page in pages_of(part)][::each]:
        for holds in (True, False):
            claim = next(claim for claim in page.claims if (claim.changed is None) == holds)
            found.append(PlannedFact(claim.text, claim.quote, page.url, holds))
    return found


def judging_facts(facts: Sequence[PlannedFact]) -> Callable[[dict[str, Any]], Reply]:
    """Return a script that plans no queries, and supports each claim with its quotation and an invented one."""
    by_claim = {fact.claim: fact for fact in facts}

    def reply(body: dict[str, Any]) -> Reply:
        numbers = sources_of(body)
        if not numbers:
            return says(json.dumps({"questions": []}))
        first = prompt_of(body).split("\n", 1)[0].removeprefix("Claim: ")
        fact = by_claim[json.loads(first) if first.startswith('"') else first]
        source = numbers.get(fact.url, 99)
        quotes = (fact.quote, fact.invented)
        return says(
            json.dumps({"evidence": [{"source": source, "quote": quote, "stance": "supports"} for quote in quotes]})
        )

    return reply
