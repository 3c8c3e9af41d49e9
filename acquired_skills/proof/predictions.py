"""Compares the author's predictions with the answers of the code and of its surviving mutants (GATE-1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from acquired_skills.in_box.call_data import call_key
from acquired_skills.model.prediction import UNSPECIFIED, Prediction
from acquired_skills.proof.answers import Data, same_answer
from acquired_skills.proof.json_calls import JsonCalls
from acquired_skills.proof.prediction_checks import satisfies
from acquired_skills.proof.surviving_mutants import Survivors
from acquired_skills.proof.wrong_answers import WAYS, near_misses, wrong_answer

_DECISIVE = 0.5  # a prediction that rejects at most this share of the wrong answers to a call is too weak


@dataclass(frozen=True, slots=True)
class ComparedPredictions:
    """The predictions of an author, grouped by what they prove.

    Each group lists predictions by number.

    Attributes:
        agreed: The code gives the predicted result, and the prediction rejects most wrong answers. Besides, admission
            could have asked about this call, or the prediction kills a mutant.
        disputed: The result of the code differs from the prediction.
        changed: The author changed the prediction after a dispute, and now it agrees. That proves little: if the result
            can only be true or false, for example, the dispute itself shows which one the code gives.
        weak: The code gives the predicted result, but most wrong answers, or most results of other calls, would satisfy
            the prediction too.
        unasked: The code gives the predicted result, but the prediction kills no mutant, and admission would not ask
            about this call. It may have asked before tests were added, which changes the questions.
        unspecified: The author states that any result is acceptable.
        unanswered: The code's result varies or takes too long.
        repeated: The code gives the predicted result, but a test or an earlier prediction covers the same call.
        killed: The mutants that agreed predictions reject, each with the number of the first such prediction.
    """

    agreed: tuple[int, ...]
    disputed: tuple[int, ...]
    changed: tuple[int, ...]
    weak: tuple[int, ...]
    unasked: tuple[int, ...]
    unspecified: tuple[int, ...]
    unanswered: tuple[int, ...]
    repeated: tuple[int, ...]
    killed: Mapping[int, int]


def compare_predictions(
    predictions: Sequence[Prediction], survivors: Survivors, earlier: Sequence[Prediction], calls: JsonCalls
) -> ComparedPredictions:
    """Compare predictions with the answers of the code and of its surviving mutants.

    Args:
        predictions: The predictions, in the order of the predicted calls of `survivors`.
        earlier: Predictions that were disputed when the author proposed this skill before.
    """
    kinds: dict[str, list[int]] = {}
    killed: dict[int, int] = {}
    keys = [calls.key(call) for call in survivors.calls]
    stated = {calls.key(call) for call in calls.examples}
    before = [(calls.key(calls.call(each.arguments)), each) for each in earlier]
    askable = {*keys[survivors.predicted :], *map(calls.key, survivors.unused)}
    for number, prediction in enumerate(predictions):
        changed = any(key == keys[number] and each.checks != prediction.checks for key, each in before)
        kind = _kind(number, prediction, survivors, changed=changed)
        if kind in ("agreed", "weak"):
            kills = _kills(number, prediction, survivors) if kind == "agreed" else []
            if keys[number] in stated:
                kind = "repeated"
            elif kind == "agreed" and keys[number] not in askable and not kills:
                kind = "unasked"
            killed = {**dict.fromkeys(kills, number), **killed}
        stated.add(keys[number])
        kinds.setdefault(kind, []).append(number)
    return ComparedPredictions(killed=killed, **{kind: tuple(kinds.get(kind, ())) for kind in _KINDS})


_KINDS = ("agreed", "disputed", "changed", "weak", "unasked", "unspecified", "unanswered", "repeated")


def _kills(number: int, prediction: Prediction, survivors: Survivors) -> list[int]:
    """Return the numbers of the mutants that a prediction rejects."""
    return [
        mutant
        for mutant, differing in survivors.differing.items()
        if number in differing and not satisfies(differing[number], prediction)
    ]


def _kind(number: int, prediction: Prediction, survivors: Survivors, *, changed: bool) -> str:
    """Return the group of a prediction. One that is "agreed" or "weak" may still turn out to be repeated or unasked.

    Args:
        changed: Whether the author predicted something else for this call before, which was disputed.
    """
    if UNSPECIFIED in prediction.checks:
        return "unspecified"
    answer = survivors.truth.get(number)
    if answer is None:
        return "unanswered"
    if not satisfies(answer, prediction):
        return "disputed"
    if changed:
        return "changed"
    wrong: list[Data] = [{"value": None}, *(wrong_answer(answer, way) for way in range(WAYS))]
    wrong += [differing[number] for differing in survivors.differing.values() if number in differing]
    wrong = [each for each in wrong if not same_answer(each, answer)]
    others = [each for each in survivors.truth.values() if not same_answer(each, answer)]
    kinds = (wrong, others, near_misses(answer))
    return "agreed" if all(_rejects_most(prediction, each) for each in kinds) else "weak"


def _rejects_most(prediction: Prediction, answers: Sequence[Data]) -> bool:
    """Return whether a prediction rejects most of these answers; True if there are no answers."""
    different = {call_key(each): each for each in answers}.values()
    return not different or sum(not satisfies(each, prediction) for each in different) > _DECISIVE * len(different)
