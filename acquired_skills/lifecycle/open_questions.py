"""Shows and answers the open questions of stored skills (GATE-8).

A skill that was imported without an author may have open questions, and stays on probation. Questions are not stored:
they depend only on code and tests, so admission finds them again. Answers are predictions like those of an author.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.prediction import Prediction, Question
from acquired_skills.model.proposal import Proposal, ProposalProblem, SkillRefused
from acquired_skills.model.provenance import origins
from acquired_skills.model.skill import Skill, SkillError
from acquired_skills.proof.admission_report import open_questions

_PASSES = (
    "Nothing is asked any longer: the skill would be admitted today. An empty list of answers admits it again, without "
    "the mark."
)


@dataclass(frozen=True, slots=True)
class OpenQuestions:
    """What must still be answered about a skill.

    Attributes:
        count: The number of open questions; 0 if there are none.
        questions: The calls whose results are asked for; none if nothing is asked any longer.
        problems: Everything else that keeps the skill on probation, such as answers that do not agree with the code.
    """

    skill: Skill
    count: int = 0
    questions: tuple[Question, ...] = ()
    problems: tuple[ProposalProblem, ...] = ()

    @classmethod
    def after(cls, skill: Skill, refused: SkillRefused) -> "OpenQuestions":
        """Return what a refusal still asks about a stored skill, which the refusal leaves as it is."""
        questions = tuple(each for each in refused.questions if not each.disputed)
        problems = tuple(each for each in refused.problems if not each.asks)
        return cls(skill, len(questions) or open_questions(skill.admission), questions, problems)

    def value(self) -> dict[str, Any]:
        """Return the questions as JSON."""
        return {
            "name": self.skill.name,
            "version": self.skill.version,
            "state": self.skill.state.value,
            "open_questions": self.count,
            "questions": [{"arguments": dict(each.arguments)} for each in self.questions],
            "problems": [each.text for each in self.problems],
        }


async def find_open_questions(library: SkillLibrary, skill: Skill, agent: str = "") -> OpenQuestions:
    """Run the admission of a skill again, and return what it asks.

    Args:
        agent: The key under which the boxes of the admission are queued (`Turn.agent_key`).

    Raises:
        SkillDamaged: The skill's files were changed after they were admitted.
        SandboxError: No box can run.
    """
    if not open_questions(skill.admission):
        return OpenQuestions(skill)
    try:
        await library.readmit(skill, asking=True, agent=agent)
    except SkillRefused as refused:
        return OpenQuestions.after(skill, refused)
    return OpenQuestions(skill, open_questions(skill.admission), problems=(ProposalProblem("expected", _PASSES),))


async def proposal_with_answers(
    library: SkillLibrary, skill: Skill, answers: Sequence[Prediction], provenance: Mapping[str, str]
) -> Proposal:
    """Return a proposal of the same skill with answers to its questions, from which its next version is created.

    Args:
        provenance: Who answers, and how (`acquired_skills.model.provenance`). The origin of the code is added.

    Raises:
        SkillError: The skill has no open questions, or is not offered.
        SkillDamaged: The skill's files were changed after they were admitted.
    """
    if not open_questions(skill.admission):
        raise SkillError(f"`{skill.name}` has no open questions, so there is nothing to answer.")
    if not skill.state.listed:  # answers would create a version that is offered again
        raise SkillError(
            f"`{skill.name}` is {skill.state}. Its questions can be answered when it is offered again: enable it, or "
            "repair it with a new version."
        )
    proposal = await library.proposal_of(skill)  # its earlier predictions are added by the library
    return replace(proposal, expected=tuple(answers), provenance={**origins(skill.provenance), **provenance})
