"""Research on 40 scripted questions, in which the model makes 200 claims, half of them wrong in one of three ways."""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from builtin_tools.web.research.deep_research import deep_research
from builtin_tools.web.research.report_check import check_report
from engine.contract.context import Produced
from sandbox.contract import Sandbox
from tests.agent.scripted_model import serving
from tests.builtin_tools.web.research.conftest import WithModel
from tests.builtin_tools.web.research.material_pages import PARTS, WrittenPage, pages_of
from tests.builtin_tools.web.research.scripted_claims import ScriptedClaim, answering
from tests.builtin_tools.web.research.served_web import serving_pages
from tests.interfaces.cli import run_as_process

TRUE, INVENTED, CHANGED, WRONG_SOURCE = "true", "invented", "changed", "wrong source"


@dataclass(frozen=True)
class Planned:
    """A claim that the model will make, and what is wrong with it."""

    kind: str
    part: str
    question: str
    claim: ScriptedClaim


def invented(page: WrittenPage, number: int) -> str:
    """Return a quotation that is not on the page. Most are close to one that is."""
    chance = random.Random(number)
    words = page.claims[number % len(page.claims)].quote.split()
    middle = len(words) // 2
    match number % 6:
        case 0:
            return " ".join([*words[:middle], "allegedly", *words[middle:]])
        case 1:
            return " ".join([*words[:middle], *words[middle + 1 :]])
        case 2:
            return " ".join([*words[:-1], "yesterday."])
        case 3:
            first, last = page.text.split(". ")[0], page.text.rstrip(".").split(". ")[-1]
            return f"{first}, and {last}"
        case 4:
            chance.shuffle(words)
            return " ".join(words)
        case _:
            return f"Experts agree that {page.title} is without any doubt the best of its kind."


def planned() -> list[Planned]:
    """Return the 200 claims of the model."""
    found: list[Planned] = []
    number = 0
    for part in PARTS:
        for page in pages_of(part):
            for question in page.questions:
                for claim in question.claims:
                    kind = CHANGED if claim.changed is not None else TRUE
                    found.append(Planned(kind, part, question.text, ScriptedClaim(claim.text, claim.quote, page.url)))
                true = question.claims[0]
                text = f"It was reported that this is so: {true.text}"
                found.append(
                    Planned(INVENTED, part, question.text, ScriptedClaim(text, invented(page, number), page.url))
                )
                if number % 4:
                    text = f"Another page says this as well: {true.text}"
                    claim = ScriptedClaim(text, true.quote, page.url, "another")
                    found.append(Planned(WRONG_SOURCE, part, question.text, claim))
                number += 1
    return found


def state_of(plan: Planned, output: Mapping[str, Any]) -> str:
    return next((each["state"] for each in output["claims"] if each["sentence"] == plan.claim.text), "removed")


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.spec("WEB-4")
async def test_of_200_claims_the_wrong_ones_are_removed_or_labelled_and_the_true_ones_are_kept(
    research_ctx: WithModel, box: Sandbox, tmp_path: Path
) -> None:
    """The pages are requested over HTTP and read in boxes. Only the model is scripted."""
    plans = planned()
    assert Counter(plan.kind for plan in plans) == {TRUE: 100, INVENTED: 40, CHANGED: 30, WRONG_SOURCE: 30}
    questions = list(dict.fromkeys(plan.question for plan in plans))
    assert len(questions) == 40
    script = answering(lambda question: [plan.claim for plan in plans if plan.question == question])
    outputs: dict[str, Mapping[str, Any]] = {}
    pages = [page for part in PARTS for page in pages_of(part)]
    with serving_pages(pages, box, tmp_path) as web:
        async with serving(script) as model:
            ctx = research_ctx(web, model)
            for question in questions:
                made: Produced[Any] = await deep_research.run(ctx, {"question": question, "pages": 5})
                outputs[question] = made.value
        sources = {source["url"]: source for output in outputs.values() for source in output["sources"]}
        texts = {url: (await web.read(url, circuit="check", fresh=True)).text for url in sources}
    states = Counter((plan.kind, plan.part, state_of(plan, outputs[plan.question])) for plan in plans)
    for part in PARTS:
        assert states[TRUE, part, "confirmed"] >= 48, states
        assert states[CHANGED, part, "confirmed"] <= 1, states
        assert states[TRUE, part, "removed"] == 0, states
    assert sum(states[INVENTED, part, "removed"] for part in PARTS) == 40, states
    assert sum(states[WRONG_SOURCE, part, "removed"] for part in PARTS) == 30, states

    reports = [ctx.workspace.root / output["report"] for output in outputs.values()]
    checks = [check_report(report) for report in reports]
    assert [problem for check in checks for problem in check.problems] == []
    assert sum(check.confirmed for check in checks) == sum(len(each["claims"]) for each in outputs.values())
    again = [check_report(report, lambda source: texts[source["url"]]) for report in reports]
    assert again == checks
    command = await asyncio.to_thread(run_as_process, "research", "check", *map(str, reports))
    assert command.code == 0, command.out


@pytest.mark.spec("WEB-4")
def test_the_quotations_of_the_material_are_what_their_kind_says() -> None:
    texts = {page.url: page.text for part in PARTS for page in pages_of(part)}
    for plan in planned():
        on_page = plan.claim.quote in texts[plan.claim.url]
        assert on_page == (plan.kind != INVENTED), plan
    for plan in planned():
        if plan.kind == TRUE:
            assert plan.claim.text not in texts[plan.claim.url], "a true claim must be a paraphrase"
