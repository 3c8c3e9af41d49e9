"""Asks a person the questions that a refused proposal leaves open (GATE-7).

The proposal is then sent again with the answers. The person sees the calls, but never the results of the code. Without
answers, the refusal stands.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from acquired_skills.lifecycle.approvals import Ask
from acquired_skills.lifecycle.library import Progress, SkillLibrary
from acquired_skills.model.prediction import Prediction, Question
from acquired_skills.model.proposal import Proposal, ProposalProblem, SkillRefused
from acquired_skills.model.skill import Skill
from acquired_skills.model.written_answers import HOW, read_answer
from engine.contract.context import Clock, no_progress
from engine.policy.forms import Form, FormField, PersonForms

MOST_FORMS = 3  # maximum number of forms for one proposal
ANSWERED_WITHIN_S = 300.0  # time limit in seconds for all forms of one proposal, the same as for an approval


@dataclass(frozen=True, slots=True)
class AskingLibrary:
    """Creates skills, and asks a person for the results of calls if the tests prove too little.

    Attributes:
        forms: Shows the questions; None if nobody can be asked.
    """

    library: SkillLibrary
    forms: PersonForms | None
    clock: Clock

    async def create(
        self, proposal: Proposal, progress: Progress = no_progress, ask: Ask | None = None, *, agent: str = ""
    ) -> Skill:
        """Create a skill with `SkillLibrary.create`. If the proposal is refused, let a person answer the questions.

        The arguments and exceptions are those of that method. If the proposal is still refused, the refusal lists the
        answers of the person, so that the author can send them again.
        """
        once, until = _asked_once(ask), self.clock.monotonic() + ANSWERED_WITHIN_S
        given: list[Prediction] = []
        for form in range(MOST_FORMS + 1):
            try:
                return await self.library.create(proposal, progress, once, agent=agent)
            except SkillRefused as refused:
                left = until - self.clock.monotonic()
                disputed = any(each.disputed for each in refused.questions)
                answers: list[Prediction] = []
                unread: list[str] = []
                if self.forms is not None and refused.questions and not disputed and left > 0 and form < MOST_FORMS:
                    progress("asking for results", 0.5)
                    answers, unread = await self._answers(self.forms, proposal, refused.questions, left)
                if not answers:
                    if notes := _notes(given, unread):
                        problems = [*refused.problems, *notes]
                        raise SkillRefused(refused.name, problems, refused.questions, refused.disputed) from refused
                    raise
                given = _joined(given, answers)
                proposal = replace(proposal, expected=tuple(_joined(proposal.expected, answers)))
        raise AssertionError("the last round of the loop returns or raises")

    async def _answers(
        self, forms: PersonForms, proposal: Proposal, questions: Sequence[Question], within_s: float
    ) -> tuple[list[Prediction], list[str]]:
        """Return the answers as predictions, and a message for each answer that cannot be used."""
        fields = [
            FormField(f"answer_{number}", shown_question(proposal.name, each), HOW)
            for number, each in enumerate(questions, 1)
        ]
        found = await forms.fill(Form(_message(proposal), fields), within_s)
        answers: list[Prediction] = []
        unread: list[str] = []
        for field, question in zip(fields, questions, strict=True):
            if field.name in found:
                try:
                    answers.append(Prediction(question.arguments, read_answer(found[field.name])))
                except ValueError as error:
                    unread.append(f"The answer to `{field.title}` cannot be used: {error}")
        return answers, unread


def _asked_once(ask: Ask | None) -> Ask | None:
    """Return a function that calls `ask` only once for the same arguments."""
    if ask is None:
        return None
    approved: dict[str, str] = {}

    async def once(arguments: dict[str, Any]) -> str:
        key = json.dumps(arguments, sort_keys=True)
        if key not in approved:
            approved[key] = await ask(arguments)
        return approved[key]

    return once


def _message(proposal: Proposal) -> str:
    return (
        f"`{proposal.name}` was proposed as a skill: {' '.join(proposal.description.split())}\n"
        "Its tests prove too little. According to the description, what should these calls return?"
    )


def shown_question(name: str, question: Question) -> str:
    """Format the call that a question is about in one line."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in question.arguments.items())})"


def _joined(earlier: Sequence[Prediction], later: Sequence[Prediction]) -> list[Prediction]:
    """Combine predictions. A later prediction replaces an earlier one of the same call."""
    found = {json.dumps(each.arguments, sort_keys=True): each for each in (*earlier, *later)}
    return list(found.values())


def _notes(given: Sequence[Prediction], unread: Sequence[str]) -> list[ProposalProblem]:
    """Return problems that tell the author which answers the person gave, and which could not be used."""
    notes = list(unread)
    if given:
        answers = json.dumps([{"arguments": each.arguments, **each.checks} for each in given], ensure_ascii=False)
        notes.append(f"A person was asked and gave these answers. Send them in `expected`: {answers}")
    return [ProposalProblem("expected", note) for note in notes]
