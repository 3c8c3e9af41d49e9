"""Proposes a solution, lets an author answer what admission asks, and proposes it again, for a few rounds."""

import ast
import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.prediction import RAISES, RESULT, UNSPECIFIED, Prediction, Question
from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.proof.admission import admit
from bench.admission.argument_shapes import call_text
from bench.admission.authors import UNDECIDED, Asked, Author
from bench.admission.problems import Problem, is_call_of
from bench.admission.solutions import Answer
from sandbox.contract import Sandbox

_MENTIONED = re.compile(r"`([^`]+)` gives (?:`([^`]+)`|([A-Z]\w+))")


@dataclass(frozen=True, slots=True)
class ProposalOutcome:
    """One proposal of a skill, and the answer to it.

    Attributes:
        admitted: Whether it became a skill.
        seconds: Wall time of the admission.
        asked: The questions of the refusal.
        why: The text of the refusal.
        parts: The parts of the proposal that the refusal names.
        disputed: The predictions that differ from what the code gives.
    """

    admitted: bool
    seconds: float
    asked: tuple[Asked, ...] = ()
    why: str = ""
    parts: frozenset[str] = frozenset()
    disputed: tuple[Prediction, ...] = ()


@dataclass(frozen=True, slots=True)
class AdmissionDialogue:
    """All proposals of one solution by one author, including the first one."""

    attempts: Sequence[ProposalOutcome]

    @property
    def admitted(self) -> bool:
        """Whether it was admitted in the end."""
        return self.attempts[-1].admitted

    @property
    def questions(self) -> int:
        """The number of questions that the author was asked, including repeated ones."""
        return sum(len(each.asked) for each in self.attempts)

    @property
    def seconds(self) -> float:
        """The wall time of all admissions."""
        return sum(each.seconds for each in self.attempts)


async def propose(
    problem: Problem, offered: Proposal, box: Sandbox, seed: int, *, disputed: Sequence[Prediction] = ()
) -> ProposalOutcome:
    """Propose a skill once.

    Args:
        disputed: Predictions that were disputed before.
    """
    began = time.perf_counter()
    try:
        await admit(ParsedProposal.parse(offered), box, seed=seed, disputed=disputed)
    except SkillRefused as refused:
        took = time.perf_counter() - began
        asked = _questions(problem, refused.questions) or _mentioned(offered.name, str(refused))
        parts = frozenset(str(problem.part) for problem in refused.problems)
        return ProposalOutcome(False, took, tuple(asked), str(refused), parts, refused.disputed)
    return ProposalOutcome(True, time.perf_counter() - began)


async def converse(offered: Proposal, first: ProposalOutcome, author: Author, seed: int) -> AdmissionDialogue:
    """Continue after the first attempt until the proposal is admitted, nothing is asked, or the author gives up."""
    attempts, answered = [first], offered
    for _ in range(author.rounds):
        asked = attempts[-1].asked
        if attempts[-1].admitted or not asked:
            break
        answers = await author.answers(asked)
        known = [(each, answer) for each, answer in zip(asked, answers, strict=True) if answer is not None]
        before, answered = answered, _with_answers(answered, known)
        if answered == before:  # the author insists on its answers
            break
        disputed = [each for attempt in attempts for each in attempt.disputed]
        attempts.append(await propose(author.problem, answered, author.box, seed, disputed=disputed))
    return AdmissionDialogue(attempts)


def _questions(problem: Problem, questions: Sequence[Question]) -> list[Asked]:
    return [Asked(call_text(problem, each.arguments), arguments=each.arguments) for each in questions]


def _mentioned(name: str, text: str) -> list[Asked]:
    """Return the calls that the text of a refusal mentions with their answers."""
    found: dict[str, Asked] = {}
    for call, value, raised in _MENTIONED.findall(text):
        if _is_call(call, name):
            found.setdefault(call, Asked(call, (Answer(value or None, raised or None),)))
    return list(found.values())


def _is_call(text: str, name: str) -> bool:
    try:
        return is_call_of(ast.parse(text, mode="eval").body, name)
    except (SyntaxError, ValueError):
        return False


def _with_answers(offered: Proposal, answers: Sequence[tuple[Asked, Answer]]) -> Proposal:
    """Return the proposal with the answers as predictions or, for calls without arguments by name, as tests."""
    tests, expected = offered.tests, {_key(each.arguments): each for each in offered.expected}
    for asked, answer in answers:
        if asked.arguments is not None:
            expected[_key(asked.arguments)] = Prediction(asked.arguments, _checks(answer))
        elif answer != UNDECIDED:
            tests += _test(asked.call, answer, tests.count("\ndef test_answer_"))
    return replace(offered, tests=tests, expected=tuple(expected.values()))


def _test(call: str, answer: Answer, number: int) -> str:
    body = f"    assert {call} == {answer.value}\n"
    if answer.raised is not None:
        body = f"    import pytest\n\n    with pytest.raises({answer.raised}):\n        {call}\n"
    return f"\n\ndef test_answer_{number}():\n{body}"


def _checks(answer: Answer) -> dict[str, Any]:
    if answer.raised is not None:
        return {RAISES: answer.raised}
    if answer.value is None:
        return {UNSPECIFIED: True}
    return {RESULT: _as_json(set() if answer.value == "set()" else ast.literal_eval(answer.value))}


def _as_json(value: Any) -> Any:
    if isinstance(value, list | tuple | set | frozenset):
        return [_as_json(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _as_json(each) for key, each in value.items()}
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value if isinstance(value, int | float | str | None) else str(value)


def _key(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, sort_keys=True)
