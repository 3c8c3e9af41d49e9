"""What a cycle asks the model for: a task with a check, and a change. The answers are JSON objects."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from builtin_tools.self_play.cycles import Exercise, PracticeTask, Weakness
from engine.contract.strict_json import JsonError, read_first_object

TASK = """SELF-PLAY: state a task.

You improve your own tools by practice. The record shows this weakness:
{weakness}

State two exercises of the same kind, with different inputs, that somebody with this weakness gets wrong. Each has a
question, which must be answerable without files, network or other people; a check, which is Python source with a
function `check(answer: str) -> bool` that accepts only right answers, whatever else the text says; and a right answer.
The check runs in a sandbox and decides alone whether an answer is right.

Answer with one JSON object: {{"practice": {{"question": "…", "check": "…", "answer": "…"}}, "exam": {{…}}}}"""

CHANGE = """SELF-PLAY: propose a change.

The weakness: {weakness}
The question: {question}
The check that decides: {check}
Your answer: {answer}

Propose one change that makes you answer all questions of this kind right: a skill (a Python function with pytest tests,
by the rules of create_skill, with an `Args:` section in its docstring, and without packages or network), or a lesson.
The change is kept only if a question of the same kind that you do not see is answered right with it, and if no earlier
task becomes worse. Answer with one JSON object, one of:
{{"kind": "skill", "name": "…", "description": "…", "code": "…", "tests": "…", "examples": ["…"], "reference": "…"}}
{{"kind": "lesson", "mistake": "…", "fix": "…", "where": "…"}}
{{"kind": "nothing", "why": "…"}}"""

AGAIN = "\n\nYour last answer could not be used: {problem}\nCorrect it, and answer with one JSON object again."


class UnusableAnswer(Exception):
    """The answer of the model is not what it was asked for. The message says what is wrong."""


class _ExerciseAnswer(BaseModel):
    model_config = ConfigDict(extra="ignore")

    question: str = Field(min_length=8, max_length=4_000)
    check: str = Field(min_length=20, max_length=10_000)
    answer: str = Field(min_length=1, max_length=4_000)

    def exercise(self) -> Exercise:
        return Exercise(self.question, self.check, self.answer)


class _TaskAnswer(BaseModel):
    model_config = ConfigDict(extra="ignore")

    practice: _ExerciseAnswer
    exam: _ExerciseAnswer


class ProposedChange(BaseModel):
    """A change that the model proposes. The fields of other kinds are empty."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: Literal["skill", "lesson", "nothing"]
    name: str = Field("", max_length=63, pattern=r"^([a-z][a-z0-9_]*)?$")
    description: str = Field("", max_length=2_000)
    code: str = Field("", max_length=100_000)
    tests: str = Field("", max_length=100_000)
    examples: tuple[str, ...] = ()
    reference: str = Field("", max_length=100_000)
    mistake: str = Field("", max_length=600)
    fix: str = Field("", max_length=600)
    where: str = Field("", max_length=120)
    why: str = Field("", max_length=600)


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An answer that a check refused."""

    weakness: Weakness
    exercise: Exercise
    answer: str


def task_request(weakness: Weakness) -> str:
    """Return the request for a task."""
    return TASK.format(weakness=weakness.text)


def change_request(failed: FailedAttempt) -> str:
    """Return the request for a change."""
    exercise = failed.exercise
    return CHANGE.format(
        weakness=failed.weakness.text, question=exercise.question, check=exercise.check, answer=failed.answer[:2_000]
    )


def read_task(text: str) -> PracticeTask:
    """Read the model's answer to `task_request`.

    Raises:
        UnusableAnswer: It is not a task.
    """
    try:
        answer = _TaskAnswer.model_validate(_object_in(text))
    except ValidationError as error:
        raise UnusableAnswer(_said(error)) from error
    task = PracticeTask(answer.practice.exercise(), answer.exam.exercise())
    if task.practice.question.strip() == task.exam.question.strip():
        raise UnusableAnswer("The two questions are the same. Give the exam another input.")
    return task


def read_change(text: str) -> ProposedChange:
    """Read the model's answer to `change_request`.

    Raises:
        UnusableAnswer: It is not a change.
    """
    try:
        change = ProposedChange.model_validate(_object_in(text))
    except ValidationError as error:
        raise UnusableAnswer(_said(error)) from error
    missing = {
        "skill": not (change.name and change.description and change.code and change.tests),
        "lesson": not (change.mistake.strip() and change.fix.strip()),
        "nothing": False,
    }
    if missing[change.kind]:
        raise UnusableAnswer(f"A field of the {change.kind} is missing.")
    if "# /// script" in change.code:
        raise UnusableAnswer("Skills of self-play declare no packages and no network. Remove the block `# /// script`.")
    return change


def _object_in(text: str) -> Mapping[str, Any]:
    try:
        return read_first_object(text)
    except JsonError as error:
        raise UnusableAnswer(f"It cannot be read: {error}.") from error


def _said(error: ValidationError) -> str:
    lines = [f"{'.'.join(map(str, each['loc'])) or 'object'}: {each['msg']}" for each in error.errors()[:5]]
    return "; ".join(lines)
