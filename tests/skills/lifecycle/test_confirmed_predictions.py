"""A new version must also give the results that the author of the current one predicted."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.prediction import Prediction
from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.model.skill import Skill
from acquired_skills.proof.admission_report import agreed_predictions
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import UNHURRIED, opened_library, proposal

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("GATE-1", "SKILL-9"), pytest.mark.slow]
BODY = "return 100 if number > 100 else number + 1"
CHANGED = "return min(number + 1, 100)"  # another result for 100 alone
ROUNDS = 6
STRONG = "from changed_answer import changed_answer\n\n\ndef test_it():\n" + "".join(
    f"    assert changed_answer({number}) == {min(number + 1, 100)}\n"
    for number in (-3, 0, 1, 7, 98, 99, 100, 101, 500)
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def library(box: NamespaceSandbox, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SkillLibrary]:
    async with opened_library(tmp_path_factory.mktemp("home"), box, effort=UNHURRIED) as opened:
        yield opened


def predicted(number: int) -> Prediction:
    return Prediction({"number": number}, {"result": 100 if number > 100 else number + 1})


async def created(library: SkillLibrary, offered: Proposal) -> Skill:
    """Propose, answer each question correctly, and propose again until the skill is admitted."""
    for _ in range(ROUNDS):
        try:
            return await library.create(offered)
        except SkillRefused as refused:
            answers = [predicted(each.arguments["number"]) for each in refused.questions]
            offered = replace(offered, expected=(*offered.expected, *answers))
    raise AssertionError("the skill was not admitted")


async def test_a_version_with_the_same_results_need_not_answer_the_questions_again(library: SkillLibrary) -> None:
    first = await created(library, proposal("kept_answers", BODY))
    kept = agreed_predictions(first.admission)
    assert kept
    faster = BODY.replace("number + 1", "1 + number")
    second = await library.create(proposal("kept_answers", faster))
    assert {str(each.arguments) for each in agreed_predictions(second.admission)} == {str(e.arguments) for e in kept}


async def test_a_version_that_changes_a_confirmed_result_is_refused_until_its_author_says_so(
    library: SkillLibrary,
) -> None:
    first = await created(library, proposal("changed_answer", BODY))
    assert predicted(100) in agreed_predictions(first.admission)
    with pytest.raises(SkillRefused) as refused:
        await library.create(proposal("changed_answer", CHANGED))
    said = str(refused.value)
    assert "`101` was predicted for `changed_answer(number=100)`, and the current version agrees" in said
    assert "`100`" not in said  # what the code gives
    second = await library.create(proposal("changed_answer", CHANGED, breaking=True, tests=STRONG))
    assert second.version == 2
