"""Authors that answer the questions of admission. They differ in what they know about the right results."""

import ast
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.admission.problems import Problem
from bench.admission.solutions import Answer, answers_of
from sandbox.contract import Sandbox

WRONG_SHARE = 0.2  # the share of a guessing author's answers that are wrong
AUTHORS: Mapping[str, str] = {
    "truth": "gives the answers of the reference solution",
    "paste": "gives what the refusal shows, or else accepts any result, for two rounds",
    "guess": f"knows the truth, but {WRONG_SHARE:.0%} of its answers are wrong",
    "run": "gives the answers of the proposed code",
    "silent": "never answers",
}
UNDECIDED = Answer()  # accepts any result, as a prediction may do
_HALF = 0.5


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of admission.

    Attributes:
        call: The call, as source text.
        offered: Answers that the text of the refusal shows for this call.
        arguments: The arguments by name, of a call whose result is to be predicted; otherwise None.
    """

    call: str
    offered: tuple[Answer, ...] = ()
    arguments: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Author:
    """The author of one proposal, who answers questions.

    Attributes:
        kind: A key of `AUTHORS`.
        problem: The problem that the author had to solve.
        source: The code that it proposed.
        chance: Decides which answers are wrong.
    """

    kind: str
    problem: Problem
    source: str
    box: Sandbox
    chance: random.Random

    @property
    def rounds(self) -> int:
        """The maximum number of rounds in which the author replies."""
        return {"paste": 2, "silent": 0}.get(self.kind, 3)

    async def answers(self, asked: Sequence[Asked]) -> list[Answer | None]:
        """Return an answer to each question; None for a question that stays open."""
        calls = [each.call for each in asked]
        match self.kind:
            case "paste":
                return [each.offered[0] if each.offered else UNDECIDED for each in asked]
            case "silent":
                return [None for _ in asked]
            case "run":
                return await answers_of(self.problem, self.source, calls, self.box)
        true = await answers_of(self.problem, self.problem.data["code"], calls, self.box)
        if self.kind == "guess":
            return [each and self._guess(each) for each in true]
        return true

    def _guess(self, answer: Answer) -> Answer:
        return wrong(answer, self.chance) if self.chance.random() < WRONG_SHARE else answer


def wrong(answer: Answer, chance: random.Random) -> Answer:
    """Return another answer of the same kind."""
    if answer.value is None:
        return Answer("None")
    try:
        value = ast.literal_eval(answer.value)
    except (ValueError, SyntaxError):
        return Answer("None")
    return Answer(repr(_other(value, chance)))


def _other(value: Any, chance: random.Random) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + chance.choice((-1, 1, 2))
        case str():
            return value[:-1] if value and chance.random() < _HALF else f"{value}x"
        case list() | tuple() if value:
            at = chance.randrange(len(value))
            instead = [_other(value[at], chance)] if chance.random() < _HALF else []
            return type(value)([*value[:at], *instead, *value[at + 1 :]])
        case None:
            return 0
    return None
