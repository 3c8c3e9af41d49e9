"""fact_check computes its verdict from confirmed quotations of independent sources."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from builtin_tools.web.contract import Page
from builtin_tools.web.research.fact_checking.fact_check import fact_check
from builtin_tools.web.research.fact_checking.independence import near_copies, shingles_of, source_groups
from builtin_tools.web.research.verification.claims import NumberedPage
from engine.contract.failure import ToolFailure
from tests.agent.scripted_model import Reply, fails, says, serving
from tests.builtin_tools.web.research.conftest import WithModel
from tests.builtin_tools.web.research.local_web import LocalWeb, page_of
from tests.builtin_tools.web.research.material_pages import pages_of
from tests.builtin_tools.web.research.scripted_claims import sources_of

pytestmark = pytest.mark.spec("WEB-5")

CLAIM = "The bridge at Tarn was closed in 2019."
FILLER = (
    " The bridge is near the old harbour, where boats left for the islands until the war. People who live in the town "
    "remember the long queues on market days. The road on the other side leads to the mountains."
)
FOR = "The council closed the bridge at Tarn on 4 May 2019 after a storm."
AGAINST = "The bridge at Tarn was never closed in 2019, said the council."
OTHER_YEAR = "The bridge at Tarn was closed in 1987 for repairs."

Evidence = tuple[str, str, str]  # URL, quotation, stance


def web_of(*texts: tuple[str, str]) -> LocalWeb:
    filler = [page_of(each.url, each.text, each.title, each.date) for each in pages_of("building")[:3]]
    return LocalWeb.of([*(page_of(url, text, "Tarn", "2020-01-01") for url, text in texts), *filler])


def judging(evidence: Sequence[Evidence]) -> Any:
    """Return a script that plans no queries and then gives this evidence."""

    def reply(body: dict[str, Any]) -> Reply:
        numbers = sources_of(body)
        if not numbers:
            return says(json.dumps({"questions": []}))
        found = [{"source": numbers.get(url, 99), "quote": quote, "stance": stance} for url, quote, stance in evidence]
        return says(json.dumps({"evidence": found}))

    return reply


async def check(with_model: WithModel, web: LocalWeb, evidence: Sequence[Evidence]) -> dict[str, Any]:
    async with serving(judging(evidence)) as model:
        made = await fact_check.run(with_model(web, model), {"claim": CLAIM, "pages": 8})
    return dict(made.value) | {"message": made.message}


A, B, C = "https://a.example/1", "https://b.example/1", "https://c.example/1"


@pytest.mark.parametrize(
    ("evidence", "verdict", "supporting", "refuting"),
    [
        ([(A, FOR, "supports")], "supported", 1, 0),
        ([(B, AGAINST, "refutes")], "refuted", 0, 1),
        ([(A, FOR, "supports"), (B, AGAINST, "refutes")], "conflicting", 1, 1),
        ([], "not_enough_evidence", 0, 0),
    ],
)
async def test_the_verdict_follows_from_the_evidence(
    research_ctx: WithModel, evidence: list[Evidence], verdict: str, supporting: int, refuting: int
) -> None:
    web = web_of((A, FOR + FILLER), (B, AGAINST + " That is all that is known. " * 5))
    found = await check(research_ctx, web, evidence)
    assert (found["verdict"], found["supporting"], found["refuting"]) == (verdict, supporting, refuting)
    for each in found["evidence"]:
        page = web.pages[each["url"]]
        assert page.text[each["start"] : each["end"]] == each["quote"]
        assert (page.sha256, page.date) == (each["sha256"], each["date"])


async def test_quotations_that_are_not_on_the_cited_page_are_removed(research_ctx: WithModel) -> None:
    web = web_of((A, FOR + FILLER), (B, AGAINST + " That is all that is known. " * 5))
    invented = [(A, "The bridge at Tarn stayed closed all of 2019.", "supports"), (A, AGAINST, "refutes")]
    found = await check(research_ctx, web, invented)
    assert (found["verdict"], found["evidence"], found["removed"]) == ("not_enough_evidence", [], 2)


async def test_support_with_another_date_or_polarity_is_shown_and_does_not_count(research_ctx: WithModel) -> None:
    web = web_of((A, OTHER_YEAR + FILLER), (B, AGAINST + " That is all that is known. " * 5))
    found = await check(research_ctx, web, [(A, OTHER_YEAR, "supports"), (B, AGAINST, "supports")])
    assert (found["verdict"], found["supporting"]) == ("not_enough_evidence", 0)
    assert [each["counts"] for each in found["evidence"]] == [False, False]
    assert found["evidence"][0]["differences"] == ["the date “2019” is not in the quotation"]
    assert "does not count" in found["message"]


async def test_copies_of_one_text_count_once(research_ctx: WithModel) -> None:
    rewritten = f"TARN (Wire). {FOR} The mayor was not available.{FILLER} Subscribe to read more of our stories."
    web = web_of((A, FOR + FILLER), (B, FOR + FILLER + " Reported by the agency."), (C, rewritten))
    found = await check(research_ctx, web, [(url, FOR, "supports") for url in (A, B, C)])
    assert len(found["evidence"]) == 3
    assert (found["verdict"], found["supporting"]) == ("supported", 1)


async def test_two_sources_of_their_own_count_twice_and_pages_of_one_site_once(research_ctx: WithModel) -> None:
    own = "Traffic at Tarn was diverted from May 2019 on, when engineers closed the bridge."
    text = own + " The engineers had found cracks in two of the piers, which were repaired by divers in the summer."
    evidence = [(A, FOR, "supports"), (B, own, "supports")]
    assert (await check(research_ctx, web_of((A, FOR + FILLER), (B, text)), evidence))["supporting"] == 2
    same_site = "https://www.a.example/2"
    evidence = [(A, FOR, "supports"), (same_site, own, "supports")]
    assert (await check(research_ctx, web_of((A, FOR + FILLER), (same_site, text)), evidence))["supporting"] == 1


async def test_without_a_model_or_with_one_that_fails_there_is_no_verdict_and_the_reason_is_given(
    research_ctx: WithModel,
) -> None:
    web = web_of((A, FOR + FILLER))
    made = await fact_check.run(research_ctx(web, None), {"claim": CLAIM})
    assert (made.value["verdict"], made.value["evidence"]) == ("not_enough_evidence", [])
    assert "No model is configured" in made.value["why"]
    async with serving(fails(400, "broken")) as model:
        made = await fact_check.run(research_ctx(web, model), {"claim": CLAIM})
    assert made.value["verdict"] == "not_enough_evidence"
    assert "broken" in made.value["why"]


async def test_nothing_is_left_behind_when_a_check_ends_fails_or_is_cancelled(
    research_ctx: WithModel, tmp_path: Any
) -> None:
    web = web_of((A, FOR + FILLER))
    ctx = research_ctx(web, None)
    await fact_check.run(ctx, {"claim": CLAIM})
    web.hold = asyncio.Event()
    task = asyncio.create_task(fact_check.run(ctx, {"claim": CLAIM}))
    async with asyncio.timeout(20):
        while len(web.reads) < 5:
            await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    web.offline = True
    with pytest.raises(ToolFailure, match="Tor is not running"):
        await fact_check.run(ctx, {"claim": CLAIM})
    assert list((tmp_path / "journals").iterdir()) == []


def page(number: int, text: str) -> NumberedPage:
    made: Page = page_of(f"https://site{number}.example/", text)
    return NumberedPage(number, made)


def test_near_copies_are_grouped_over_several_steps() -> None:
    words = [f"word{number}" for number in range(300)]
    first, second, third = (" ".join(words[start : start + 200]) for start in (0, 50, 100))
    groups = source_groups([page(1, first), page(2, second), page(3, third), page(4, "other " * 50)])
    assert groups == {1: 1, 2: 1, 3: 1, 4: 4}
    assert not near_copies(shingles_of(first), shingles_of(third)), "the ends of the chain are no near-copies"
