"""A mutant for which there is no time is not tried: it is neither killed nor a survivor, and the report names it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from acquired_skills.in_box.effort import Effort
from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.proposal import SkillRefused
from acquired_skills.proof.admission import admit
from acquired_skills.proof.admission_report import open_questions, report_lines, report_notes
from sandbox.contract import Job, OnOutput, Outcome, Protections
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import opened_library, proposal

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("SKILL-6")]
EFFORT = Effort(total_s=60.0, answers_s=60.0)
BODY = "if number > 100:\n        return 100\n    return number + 1"
HEAD = "from add_one import add_one\n\n\n"
SOUND = HEAD + (
    "def test_adds():\n    for number, more in ((1, 2), (0, 1), (-5, -4), (99, 100), (100, 101), (101, 100)):\n"
    "        assert add_one(number) == more\n"
)


@dataclass
class OutOfTime:
    """A sandbox in which the time for the tests ends before they run on the answers of any mutant."""

    box: NamespaceSandbox
    name: str = "out of time"

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        outcome = await self.box.run(job, on_output=on_output)
        if job.call is not None and job.call.function == "judge":
            tables: Any = job.call.arguments["tables"]
            mutants = {str(number) for number, table in enumerate(tables) if table["first"] and table["changes"]}
            assert mutants
            found: Any = outcome.value
            runs = [run for run in found["runs"] if run["kind"] not in mutants]
            return replace(outcome, value={**found, "runs": runs})
        return outcome

    async def report(self) -> Protections:
        return await self.box.report()

    async def aclose(self) -> None:
        pass


async def test_a_mutant_whose_answers_the_tests_did_not_run_on_is_no_survivor(box: NamespaceSandbox) -> None:
    parsed = ParsedProposal.parse(proposal(body=BODY, tests=SOUND))
    mutants = (await admit(parsed, box, seed=1, effort=EFFORT)).report["mutants"]
    assert (mutants["untried"], mutants["survived"]) == (0, [])
    found = await admit(parsed, OutOfTime(box), seed=1, effort=EFFORT, author=False)
    assert found.report["mutants"]["untried"] >= mutants["killed"]
    assert found.report["mutants"]["survived"] == []


async def test_where_no_mutant_could_be_tried_the_author_is_asked_and_the_report_says_so(
    box: NamespaceSandbox, tmp_path: Path
) -> None:
    limited = replace(EFFORT, mutants_s=0.01)
    with pytest.raises(SkillRefused) as refused:
        await admit(ParsedProposal.parse(proposal(body=BODY, tests=SOUND)), box, seed=1, effort=limited)
    assert "Time ran out before most mutants were tried" in str(refused.value)
    assert len(refused.value.questions) == 5
    async with opened_library(tmp_path, box, effort=limited) as library:
        skill = await library.create(proposal(body=BODY, tests=SOUND), author=False)
    assert open_questions(skill.admission) > 0
    assert skill.admission["mutants"]["untried"] == skill.admission["mutants"]["made"]
    assert any(line.startswith("mutants not tried, because time ran out: ") for line in report_lines(skill.admission))
    assert report_notes(skill.admission)[0].startswith("Time ran out before most mutants were tried")


async def test_code_too_slow_for_its_mutants_stays_on_probation_where_nothing_can_be_asked(
    box: NamespaceSandbox, tmp_path: Path
) -> None:
    slow = proposal(body="__import__('time').sleep(0.7)\n    " + BODY, tests=SOUND.replace("(99, 100), ", ""))
    async with opened_library(tmp_path, box, effort=replace(EFFORT, mutants_s=1.0)) as library:
        skill = await library.create(slow)
    assert skill.admission["mutants"]["untried"] > skill.admission["mutants"]["met"]
    assert open_questions(skill.admission) == 1
