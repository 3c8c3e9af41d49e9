"""Compares a skill with its reference, a second implementation by the same author (GATE-5).

The reference answers the calls of the tests, and the calls about which the author could be asked, in a box without the
skill, its tests and its answers. The engine compares packed data, so no `__eq__` of the reference decides what is
equal. If both return the same value for a call, that counts like an agreed prediction. If they differ, one of the two
is wrong, and the author is asked which one.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from acquired_skills.model.prediction import RAISES, RESULT, Prediction
from acquired_skills.model.proposal import ProposalProblem
from acquired_skills.proof.answers import Data, close_answer, format_call
from acquired_skills.proof.isolated_runner import IsolatedRunner
from acquired_skills.proof.json_calls import JsonCalls, as_json
from acquired_skills.proof.prediction_checks import equals, satisfies
from acquired_skills.proof.surviving_mutants import Survivors

MOST_SHOWN = 3  # maximum number of calls in one refusal
_EFFECTS = ("after", "files", "printed")  # parts of an answer besides its value


@dataclass(frozen=True, slots=True)
class ComparedReference:
    """The result of comparing the code of a proposal with its reference implementation.

    Calls are given by their index in `Survivors.calls`.

    Attributes:
        problems: What the author has to change before the reference proves anything.
        agreed: New calls for which the code and the reference return the same value.
        results: The number of different values that the agreed calls return.
        changed: Calls for which the reference gave another result in an earlier proposal, but now agrees with the code.
        disputed: The results of the reference that differ from those of the code, as predictions. They are
            stored, but never shown to the author.
    """

    problems: tuple[ProposalProblem, ...] = ()
    agreed: frozenset[int] = frozenset()
    results: int = 0
    changed: frozenset[int] = frozenset()
    disputed: tuple[Prediction, ...] = ()


async def compare_reference(
    runner: IsolatedRunner,
    survivors: Survivors,
    calls: JsonCalls,
    predictions: Sequence[Prediction],
    earlier: Sequence[Prediction],
) -> ComparedReference:
    """Make the calls of `survivors` to the reference of a proposal, and compare its answers with those of the skill.

    Args:
        predictions: The author's predictions. For predicted calls, a different result of the reference is ignored.
        earlier: Predictions, and results of references, that differed from the code in earlier proposals.

    Raises:
        SandboxError: No box can run.
    """
    reference, effort, name = runner.parsed.reference, runner.effort, runner.name
    if reference is None or not survivors.calls:
        return ComparedReference()
    first = survivors.predicted + survivors.new
    tested, new = range(first, len(survivors.calls)), range(survivors.predicted, first)
    order = [*tested, *new]
    asked = [survivors.calls[at] for at in order]
    try:
        found = await runner.run_program(reference.text, asked, effort.reference_s, effort.reference_call_s)
    except (ValueError, RecursionError) as problem:
        return _refused(f"The reference gave no answers: {problem}. Make it simpler, or leave it out.")
    if found["answers"] is None:
        return _refused(
            "The reference cannot be imported on its own. Make it a complete program: it may import the same packages "
            "as the code, but not the skill itself."
        )
    answers = dict(zip(order, found["answers"], strict=True))
    truth = {at: survivors.truth[at] for at in order if at in survivors.truth}
    if silent := [at for at in tested if at in truth and not _is_given(answers[at])]:
        return _refused(
            f"The reference gives no result for {format_call(name, survivors.calls[silent[0]])}, which the tests call. "
            f"Make it return a result, in at most {effort.reference_call_s:g} s for each call."
        )
    decided = {calls.key(calls.call(each.arguments)) for each in predictions}
    wrong = [at for at, each in truth.items() if _differs(each, answers[at], tested=at in tested)]
    if differing := [at for at in wrong if calls.key(survivors.calls[at]) not in decided]:
        return _differences(name, survivors, answers, differing, calls)
    before = {calls.key(calls.call(each.arguments)): each for each in earlier}
    agreed = {
        at: before.get(calls.key(survivors.calls[at])) for at in new if at in truth and _agrees(truth[at], answers[at])
    }
    changed = frozenset(at for at, given in agreed.items() if given and not satisfies(answers[at], given))
    results = {json.dumps(truth[at]["value"]) for at in agreed.keys() - changed}
    return ComparedReference(agreed=frozenset(agreed) - changed, results=len(results), changed=changed)


def _differences(
    name: str, survivors: Survivors, answers: dict[int, Data], differing: Sequence[int], calls: JsonCalls
) -> ComparedReference:
    tested = survivors.predicted + survivors.new

    def importance(at: int) -> tuple[bool, int]:
        values = "value" in survivors.truth[at] and "value" in answers[at]
        return not values, len(repr(survivors.calls[at]))

    failing = [at for at in differing if at >= tested]
    shown = failing[:1] or sorted(differing, key=importance)[:MOST_SHOWN]
    more = f" They differ for {len(differing) - len(shown)} more calls." if len(differing) > len(shown) else ""
    problems = [ProposalProblem("reference", text) for text in _texts(name, survivors, shown)]
    last = problems.pop()
    problems.append(
        ProposalProblem(
            "reference",
            f"{last.text}{more} Correct the code or the reference, whichever contradicts the description. Do not just "
            "make the two agree. Let both raise an exception for arguments that the skill is not meant for. If any "
            'result is acceptable, state `"unspecified": true` for the call in `expected`.',
        )
    )
    return ComparedReference(tuple(problems), disputed=tuple(_disputed(survivors, answers, shown, calls)))


def _texts(name: str, survivors: Survivors, shown: Sequence[int]) -> Iterator[str]:
    for at in shown:
        call = format_call(name, survivors.calls[at])
        if at >= survivors.predicted + survivors.new:
            yield (
                f"The reference fails the tests: they make the call {call}, for which the code and the reference give "
                "different results. Which of the two is right?"
            )
        else:
            yield f"The code and the reference give different results for {call}. Which of the two is right?"


def _disputed(
    survivors: Survivors, answers: dict[int, Data], shown: Sequence[int], calls: JsonCalls
) -> Iterator[Prediction]:
    for at in shown:
        arguments, answer = calls.arguments(survivors.calls[at]), answers[at]
        if arguments is None:
            continue
        try:
            checks = {RESULT: as_json(answer["value"])} if "value" in answer else {RAISES: "Exception"}
            yield Prediction(arguments, checks)
        except ValueError:  # a value that JSON cannot represent
            continue


def _is_given(answer: Data) -> bool:
    """Return whether an answer is a value, or an exception that the program itself raised."""
    return "value" in answer or ("raised" in answer and not any(map(_is_timeout, _types(answer))))


def _is_timeout(kind: str) -> bool:
    return kind.endswith("CallTimeout")


def _differs(answer: Data, other: Data, *, tested: bool) -> bool:
    """Return whether two answers cannot both be right.

    Two exceptions of different types can both be right, because both reject the arguments. Only for calls that the
    tests make must the types be the same.
    """
    if not (_is_given(answer) and _is_given(other)):
        return "lost" in other and "value" in answer
    if "raised" in answer and "raised" in other:
        one, another = _types(answer), _types(other)
        return tested and not (one and another and (one[0] in another or another[0] in one))
    return not _is_same_value(answer, other) or (answer["value"] is None and answer.get("after") != other.get("after"))


def _agrees(answer: Data, other: Data) -> bool:
    return _is_same_value(answer, other) and all(answer.get(part) == other.get(part) for part in _EFFECTS)


def _is_same_value(answer: Data, other: Data) -> bool:
    if "value" not in answer or "value" not in other:
        return False
    if close_answer(answer, other):
        return True
    try:
        return json.dumps(answer["value"]) == json.dumps(other["value"]) or equals(
            answer["value"], as_json(other["value"])
        )
    except (ValueError, TypeError, RecursionError):
        return False


def _types(answer: Data) -> list[str]:
    raised: Any = answer["raised"]
    types = raised.get("types") if isinstance(raised, dict) else None
    return [str(each) for each in types] if isinstance(types, list) else []


def _refused(text: str) -> ComparedReference:
    return ComparedReference((ProposalProblem("reference", text),))
