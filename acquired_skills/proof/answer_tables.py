"""Makes the tables of answers on which the tests of a proposal are judged.

The tables contain the answers of the skill, of stubs and of mutants, and answers that are wrong.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from acquired_skills.in_box.call_data import call_key
from acquired_skills.proof.answers import Data
from acquired_skills.proof.facts import ResultOfTest
from acquired_skills.proof.mutant_answers import MutantAnswers
from acquired_skills.proof.wrong_answers import WAYS, wrong_answer

STUBS: Mapping[str, Data] = {
    "raises": {"raised": {"types": ["builtins:NotImplementedError", "builtins:Exception"], "args": [], "text": ""}},
    "none": {"value": None},
    "sentinel": {"sentinel": True},
}
OWN, WRONG, CONSTANT, MUTANT, EXCHANGED, NEAR = "skill", "kind", "constant", "mutant", "exchanged", "near"
CONSTANTS = 3  # how many of the skill's answers are tried as the answer to every call
_MOST_PAIRED = 60  # maximum number of calls that are paired within one group
EXCHANGES = 8  # maximum number of pairs of calls whose answers are exchanged
_FAILED = ("failed", "timeout", "exited")
_SEED = 1  # the same pairs every time, so that the same proposal gets the same verdict
_UNDECIDED = ("unanswered", "reached")


@dataclass(slots=True)
class AnswerTable:
    """A table of answers, and the results of the tests that ran on it.

    Attributes:
        kind: The kind of a stub, or WRONG, CONSTANT, OWN, MUTANT, EXCHANGED or NEAR.
        changes, otherwise, first: As in `acquired_skills.in_box.judge`.
        mutants: Numbers of the mutants that give these answers.
        raises: Whether these mutants raised an exception or ended the process wherever the skill returned a value.
    """

    kind: str
    changes: Mapping[str, Data] = field(default_factory=dict)
    otherwise: Data | None = None
    first: bool = False
    mutants: list[int] = field(default_factory=list)
    raises: bool = False
    results: Mapping[str, ResultOfTest] = field(default_factory=dict)

    def is_decided(self, tests: Sequence[str]) -> bool:
        """Return whether any of these tests failed, or all of them ran and got all answers from the table."""
        return any(map(self.failed, tests)) or all(test in self.results and not self.undecided(test) for test in tests)

    def failed(self, test: str) -> bool:
        return test in self.results and self.results[test]["outcome"] in _FAILED

    def undecided(self, test: str) -> bool:
        """Return whether a test made a call that the table does not answer, or used the skill without calling it."""
        return test in self.results and self.results[test]["outcome"] in _UNDECIDED

    def unanswered(self) -> bool:
        """Return whether any test made a call that the table does not answer."""
        return any(result["outcome"] == "unanswered" for result in self.results.values())


def tables_of(truth: Mapping[str, Data]) -> list[AnswerTable]:
    """Return the tables of the skill's own answers, of stub answers, and of wrong, reversed and constant answers.

    Args:
        truth: The skill's answers, by the key of the call.
    """
    tables = [AnswerTable(OWN), AnswerTable(OWN, first=True)]
    tables += [AnswerTable(kind, otherwise=answer) for kind, answer in STUBS.items()]
    for way in range(WAYS):
        changes = {key: wrong_answer(answer, way) for key, answer in truth.items()}
        tables.append(AnswerTable(WRONG, changes, next(iter(changes.values()), STUBS["none"])))
    near = {key: {"value": text[::-1]} for key, answer in truth.items() if isinstance(text := answer.get("value"), str)}
    if any(truth[key] != answer for key, answer in near.items()):
        tables.append(AnswerTable(NEAR, near))
    different = {call_key(answer): answer for answer in truth.values()}
    tables += [AnswerTable(CONSTANT, otherwise=answer) for answer in list(different.values())[:CONSTANTS]]
    return tables


def tables_of_exchanges(truth: Mapping[str, Data], tests: Mapping[str, frozenset[str]]) -> list[AnswerTable]:
    """Return tables in which the results of two calls are exchanged, which only tests of exact results notice.

    Args:
        truth: The skill's answers, by the key of the call.
        tests: The tests that make each call. Only calls of the same tests exchange results.
    """
    order = random.Random(_SEED)  # noqa: S311 -- a choice, not a secret
    groups: dict[frozenset[str], list[str]] = {}
    for key in sorted(truth):
        if truth[key].keys() == {"value"} and tests.get(key):
            groups.setdefault(tests[key], []).append(key)
    pairs = []
    for group in groups.values():
        pairs += [pair for pair in combinations(group[:_MOST_PAIRED], 2) if truth[pair[0]] != truth[pair[1]]]
    order.shuffle(pairs)
    return [AnswerTable(EXCHANGED, {one: truth[other], other: truth[one]}) for one, other in pairs[:EXCHANGES]]


def tables_of_mutants(keys: Sequence[str], mutated: MutantAnswers) -> list[AnswerTable]:
    """Return one table for each group of mutants with the same answers.

    A table without changes need not be run, because no test can distinguish it from the table of the skill itself.
    """
    tables: dict[str, AnswerTable] = {}
    for number, changes in sorted(mutated.changes.items()):
        answers = {keys[i]: answer for i, answer in changes.items()}
        table = AnswerTable(MUTANT, answers, first=True, raises=always_raises(changes, mutated.truth))
        tables.setdefault(call_key(answers), table).mutants.append(number)
    return list(tables.values())


def always_raises(answers: Mapping[int, Data], truth: Sequence[Data]) -> bool:
    """Return whether a mutant raises an exception, or ends the process, wherever the skill returns a value."""
    values = sum("value" in answer for answer in truth)
    return 0 < values <= sum("value" not in answer for answer in answers.values())
