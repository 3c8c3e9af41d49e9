"""Compares the author's predictions with the answers of the code and of its surviving mutants (GATE-1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from acquired_skills.model.prediction import UNSPECIFIED, Prediction
from acquired_skills.proof.answers import Data, same_answer
from acquired_skills.proof.json_calls import JsonCalls
from acquired_skills.proof.prediction_checks import satisfies
from acquired_skills.proof.surviving_mutants import Survivors
from acquired_skills.proof.wrong_answers import WAYS, wrong_answer

_DECISIVE = 0.5  # share of the wrong answers to a call; a prediction that rejects a smaller share is too weak


@dataclass(frozen=True, slots=True)
class ComparedPredictions:
    """The predictions of an author, by what they prove. All numbers are those of predicted calls.

    Attributes:
        agreed: The code gives what was predicted, and the prediction rejects most wrong answers. The call is one that
            could have been asked about, or the prediction kills a mutant.
        disputed: The code gives something else.
        changed: The prediction was changed after it was disputed, and now agrees. That proves little, because after a
            dispute over a yes or a no only one answer is left.
        weak: The code gives what was predicted, but so would most wrong answers.
        unspecified: The author says that any result will do.
        unanswered: The code's result varies or takes too long.
        repeated: The code gives what was predicted, but a test, or an earlier prediction, states the same.
        killed: The mutants that an agreed prediction rejects, each with the first call that does.
    """

    agreed: tuple[int, ...]
    disputed: tuple[int, ...]
    changed: tuple[int, ...]
    weak: tuple[int, ...]
    unspecified: tuple[int, ...]
    unanswered: tuple[int, ...]
    repeated: tuple[int, ...]
    killed: Mapping[int, int]


def compare_predictions(
    predictions: Sequence[Prediction], survivors: Survivors, earlier: Sequence[Prediction], calls: JsonCalls
) -> ComparedPredictions:
    """Compare predictions with answers.

    Args:
        predictions: In the order of the predicted calls of `survivors`.
        earlier: Predictions that were disputed when the author proposed this skill before.
    """
    kinds: dict[str, list[int]] = {}
    killed: dict[int, int] = {}
    keys = [calls.key(call) for call in survivors.calls]
    stated = {calls.key(call) for call in calls.examples}
    askable = {*keys[survivors.predicted :], *map(calls.key, survivors.unused)}
    for number, prediction in enumerate(predictions):
        kind = _kind(number, prediction, survivors, earlier)
        if kind in ("agreed", "weak"):
            kills = _kills(number, prediction, survivors)
            if keys[number] in stated:
                kind = "repeated"
            elif kind == "agreed" and keys[number] not in askable and not kills:
                kind = "weak"
            killed = {**dict.fromkeys(kills, number), **killed}
        stated.add(keys[number])
        kinds.setdefault(kind, []).append(number)
    return ComparedPredictions(killed=killed, **{kind: tuple(kinds.get(kind, ())) for kind in _KINDS})


_KINDS = ("agreed", "disputed", "changed", "weak", "unspecified", "unanswered", "repeated")


def _kills(number: int, prediction: Prediction, survivors: Survivors) -> list[int]:
    """Return the mutants that a prediction rejects."""
    return [
        mutant
        for mutant, differing in survivors.differing.items()
        if number in differing and not satisfies(differing[number], prediction)
    ]


def _kind(number: int, prediction: Prediction, survivors: Survivors, earlier: Sequence[Prediction]) -> str:
    if UNSPECIFIED in prediction.checks:
        return "unspecified"
    answer = survivors.truth.get(number)
    if answer is None:
        return "unanswered"
    if not satisfies(answer, prediction):
        return "disputed"
    if any(each.arguments == prediction.arguments and each.checks != prediction.checks for each in earlier):
        return "changed"
    wrong: list[Data] = [{"value": None}, *(wrong_answer(answer, way) for way in range(WAYS))]
    wrong += [differing[number] for differing in survivors.differing.values() if number in differing]
    wrong = [each for each in wrong if not same_answer(each, answer)]
    rejected = sum(not satisfies(each, prediction) for each in wrong)
    return "agreed" if rejected > _DECISIVE * len(wrong) else "weak"
