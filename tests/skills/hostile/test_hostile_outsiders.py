"""Attacks by authors who know a gate of tests, questions and references, under the limits that users have.

Each is right by its own tests and gives an agent a wrong result. Some are tried every time, all of them by `make soak`.
"""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import pytest_asyncio

from acquired_skills.in_box.effort import Effort
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.proposal import SkillRefused
from acquired_skills.proof.admission_report import report_notes
from acquired_skills.proof.isolated_runner import IsolatedRunner
from sandbox.contract import Job, Limits
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.hostile.attempt import PRIME_BODY, STRONG_TESTS, Attempt, prime
from tests.skills.hostile.channels import CHANNELS
from tests.skills.hostile.lenient import LENIENT
from tests.skills.hostile.persuasion import PERSUASION
from tests.skills.hostile.situations import SITUATIONS
from tests.skills.parts import opened_library

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("SKILL-7", "GATE-1", "GATE-5")]
ALL = (*SITUATIONS, *CHANNELS, *LENIENT, *PERSUASION)
DECIDABLE = [attempt for attempt in ALL if not attempt.undecidable]
EVERY_TIME = frozenset(
    (
        "output_is_dropped",
        "kind_of_number",
        "time_bomb",
        "answers_by_closure",
        "answers_by_recursion_limit",
        "golden_file",
        "only_their_number",
        "only_the_length",
        "predicted_permutation",
        "refuses_everything_else",
        "reference_executes_packed_text",
        "reference_shares_a_module",
    )
)
# The skill's folder is as in the boxes of admission, whose working folder is called `own`.
RUN_TESTS = """import os

import pytest

os.mkdir("own")
os.chdir("own")
raise SystemExit(pytest.main(["-q", "-p", "no:cacheprovider", "../FILE"]))
"""
PATIENT = Effort(total_s=60.0, judge_s=120.0, answers_s=60.0)  # so that a busy machine changes no verdict


def each(attempts: Sequence[Attempt]) -> list[Any]:
    return [
        pytest.param(one, id=one.title, marks=[] if one.title in EVERY_TIME else pytest.mark.soak) for one in attempts
    ]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def library(box: NamespaceSandbox, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SkillLibrary]:
    async with opened_library(tmp_path_factory.mktemp("home"), box, effort=PATIENT) as opened:
        yield opened


@pytest.mark.parametrize("attempt", each(DECIDABLE))
async def test_an_attack_is_refused_or_admitted_with_a_note_about_it(attempt: Attempt, library: SkillLibrary) -> None:
    if not attempt.marked:
        with pytest.raises(SkillRefused):
            await library.create(attempt.proposal(""))
        return
    skill = await library.create(attempt.proposal(""))
    await library.delete(skill.name)
    assert any(note.startswith(attempt.marked) for note in report_notes(skill.admission))


@pytest.mark.parametrize("attempt", each(ALL))
async def test_a_gate_that_runs_the_tests_once_would_admit_it_and_an_agent_would_get_a_wrong_result(
    attempt: Attempt, box: NamespaceSandbox
) -> None:
    given = attempt.proposal("")
    if attempt.title in ("order_of_a_set", "rarely_wrong"):
        pytest.skip("by its nature, this happens only now and then")
    file = f"test_{given.name}.py"
    texts = {**given.files, f"{given.name}.py": given.code, file: given.tests}
    files = {path: text.encode() for path, text in texts.items()}
    tested = await box.run(
        Job(code=RUN_TESTS.replace("FILE", file), files=files, preload=("pytest",), limits=Limits(wall_s=60.0))
    )
    assert tested.ok, tested.stdout
    if attempt.call:
        called = await IsolatedRunner(ParsedProposal.parse(given), (), box, PATIENT).call_as_agent(attempt.call)
        assert json.dumps(called.value) != json.dumps(attempt.right)


async def test_right_code_with_the_same_tests_is_admitted(library: SkillLibrary) -> None:
    honest = Attempt("honest", "Nothing.", prime("", PRIME_BODY), STRONG_TESTS)
    assert (await library.create(honest.proposal(""))).tests == 2
    await library.delete(honest.name)


async def test_there_are_more_than_forty_and_all_are_different() -> None:
    assert len(DECIDABLE) > 40
    assert len({attempt.title for attempt in ALL}) == len(ALL)
    assert {attempt.title for attempt in ALL} > EVERY_TIME
    assert len({(attempt.code, attempt.tests, attempt.reference, id(attempt.expected)) for attempt in ALL}) == len(ALL)
