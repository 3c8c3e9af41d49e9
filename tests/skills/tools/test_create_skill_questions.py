"""`create_skill` asks questions, accepts predictions, and stores those that differ from the code."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from acquired_skills.in_box.effort import Effort
from acquired_skills.model.prediction import Prediction
from acquired_skills.store.disputed_predictions import MOST_KEPT, DisputedPredictions
from builtin_tools.create_skill import create_skill
from engine.contract.failure import ToolFailure
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import context, opened_library, opened_records, proposal

pytestmark = pytest.mark.spec("GATE-2")
ON_THE_BOX = pytest.mark.asyncio(loop_scope="module")
BODY = "return 100 if number > 100 else number + 1"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def library(box: NamespaceSandbox, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Any]:
    async with opened_library(tmp_path_factory.mktemp("home"), box, effort=Effort()) as opened:
        yield opened


async def refused(library: Any, box: NamespaceSandbox, folder: Path, **more: Any) -> ToolFailure:
    offered = proposal(body=BODY)
    with pytest.raises(ToolFailure) as failed:
        await create_skill.run(
            context(library, box, folder),
            {
                "name": offered.name,
                "description": offered.description,
                "code": offered.code,
                "tests": offered.tests,
                **more,
            },
        )
    return failed.value


@ON_THE_BOX
async def test_a_refusal_returns_its_questions_and_answers_lead_to_admission(
    library: Any, box: NamespaceSandbox, tmp_path: Path
) -> None:
    failed = await refused(library, box, tmp_path)
    asked = failed.output["questions"]
    assert asked
    assert all(set(each) == {"arguments", "disputed"} for each in asked)
    wrong = [{"arguments": each["arguments"], "result": -77} for each in asked]
    failed = await refused(library, box, tmp_path, expected=wrong)
    assert [each["disputed"] for each in failed.output["questions"]] == [True] * len(asked)
    assert "Which of the two is right?" in str(failed)

    right = [{**each, "result": 100 if (n := each["arguments"]["number"]) > 100 else n + 1} for each in wrong]
    failed = await refused(library, box, tmp_path, expected=right)  # changed after a dispute: more is asked
    assert not any(each["arguments"] in [one["arguments"] for one in right] for each in failed.output["questions"])


@ON_THE_BOX
async def test_an_invalid_prediction_is_refused_before_anything_runs(
    library: Any, box: NamespaceSandbox, tmp_path: Path
) -> None:
    failed = await refused(library, box, tmp_path, expected=[{"result": 1}])
    assert "has no `arguments`" in str(failed)
    assert failed.output is None


def test_disputed_predictions_are_stored_by_name_in_order_and_limited(tmp_path: Path) -> None:
    with opened_records(tmp_path) as records:
        kept = DisputedPredictions(records)
        many = [Prediction({"n": each}, {"result": None}) for each in range(MOST_KEPT + 5)]
        kept.keep("one", many)
        kept.keep("other", many[:1])
        assert DisputedPredictions(records).of("one") == many[5:]
        kept.forget("one")
        assert kept.of("one") == []
        assert kept.of("other") == many[:1]


@ON_THE_BOX
@pytest.mark.spec("GATE-5")
async def test_a_reference_is_an_argument_and_a_difference_is_a_disputed_question(
    library: Any, box: NamespaceSandbox, tmp_path: Path
) -> None:
    reference = "def add_one(number):\n    return min([number + 1, {}])\n"
    failed = await refused(library, box, tmp_path, reference=reference.format("101"))
    assert [each["disputed"] for each in failed.output["questions"]] == [True] * len(failed.output["questions"])
    assert failed.output["questions"]
    assert "The code and the reference give different results for" in str(failed)
