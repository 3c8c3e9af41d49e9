"""Decides whether a proposal is proved, and if not, chooses questions for its author (GATE-1).

A question is a call that distinguishes surviving mutants from the code. The calls are chosen greedily, so that a few
calls distinguish all mutants (Chvatal, "A Greedy Heuristic for the Set-Covering Problem", 1979). When no mutant is
left, long and short calls with new results are chosen in turn. If the code raises an exception for some calls, and
neither a test nor a prediction states one, one question is about such a call: code often fails where it should return a
value, and without the question nobody would notice.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from acquired_skills.in_box.effort import Effort
from acquired_skills.model.prediction import Prediction, Question
from acquired_skills.proof.answers import Data, same_answer
from acquired_skills.proof.array_values import can_be_stated
from acquired_skills.proof.json_calls import JsonCalls
from acquired_skills.proof.judging import JudgedTests
from acquired_skills.proof.predictions import ComparedPredictions, compare_predictions
from acquired_skills.proof.reference_answers import ComparedReference
from acquired_skills.proof.surviving_mutants import Survivors

MOST_QUESTIONS = 10  # largest number of questions to the author of one proposal
MOST_UNSPECIFIED = 5  # largest number of calls for which the author may state that any result is acceptable
AT_ONCE = 5  # largest number of questions in one refusal
MOST_SHOWN = 600  # maximum number of characters of the arguments of one question
_LONG = 2  # largest size of a question, as a multiple of the longest arguments in the tests
_LEAST_TRIED = 0.25  # share of the mutants that must be tried to know how much the tests prove
_LEAST_REFUSED = 10  # a note is made if all new calls raise and there are at least this many
_RAISING = 0.5  # weight of a call that raises, since its arguments may be outside the domain


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence for a proposal: from its tests, its predictions and its reference.

    Attributes:
        mutants: Whether a test or an agreed prediction kills the mutant, by the number of the mutant. Mutants that do
            not count are left out.
        met: The number of mutants that count as evidence.
        killed: How many of the mutants that count are killed.
        needed: The number of agreed predictions that prove the proposal, even if they kill no mutants.
        compared: The comparison of the predictions with the results of the code.
        questions: The calls to ask about, most decisive first.
        disputed: The predictions that differ from the results of the code.
        agreed: The predictions that agree with the results of the code, even those that prove nothing new.
        enough: Whether the proposal is proved.
        constant: An answer that tests and agreed predictions would accept for all calls, as text; "" for none.
        reference: What the reference proves.
        unknown: Whether time ran out before enough mutants were tried to know how much the tests prove.
        refused: The number of new calls and agreed predictions if the code raises an exception for every one of them;
            otherwise 0.
        survivors: What is known about the mutants that no test kills, and about the lines that no test executes.
        untested: The parameters with a default that neither a test nor an agreed prediction passes.
    """

    mutants: Mapping[int, bool] = field(default_factory=dict)
    met: int = 0
    killed: int = 0
    needed: int = 0
    compared: ComparedPredictions | None = None
    questions: tuple[Question, ...] = ()
    disputed: tuple[Prediction, ...] = ()
    agreed: tuple[Prediction, ...] = ()
    enough: bool = True
    constant: str = ""
    reference: ComparedReference = field(default_factory=ComparedReference)
    unknown: bool = False
    refused: int = 0
    survivors: Survivors = field(default_factory=Survivors)
    untested: tuple[str, ...] = ()


def weigh(
    found: JudgedTests,
    survivors: Survivors,
    *,
    made: int,
    predictions: Sequence[Prediction],
    earlier: Sequence[Prediction],
    calls: JsonCalls,
    effort: Effort,
    reference: ComparedReference,
    untested: Sequence[str] = (),
) -> Evidence:
    """Weigh the evidence for a proposal.

    Args:
        made: The number of mutants that were made.
        earlier: Predictions that were disputed in earlier proposals.
        effort: The limits of the admission, including the share of the mutants that must be killed.
        reference: What the reference proves. A result on which it agrees with the code counts as an agreed prediction.
        untested: The parameters with a default that no test passes. If a call that passes one can be asked about, the
            author is asked about at least one such call.
    """
    compared = compare_predictions(predictions, survivors, earlier, calls)
    mutants = {n: killed for n, killed in found.mutants.items() if n not in survivors.uncounted}
    tested, met = _killed(mutants, found, made, constant=bool(found.constant))
    tried = len(found.mutants)
    unknown = bool(found.untried) and tried < _LEAST_TRIED * (tried + len(found.untried))
    needed = questions_needed(sum(mutants.values()) / len(mutants) if mutants else 1.0, effort.enough)
    if unknown:
        needed = MOST_QUESTIONS
    known = (*compared.agreed, *reference.agreed)
    varied = any(not same_answer(survivors.truth[n], found.constant_answer) for n in known)
    stated = len(compared.agreed) + reference.results
    if met and tested < effort.enough * met:
        needed = max(needed, 1)
        if not varied and stated >= needed:  # one constant answer satisfies the predictions, too
            needed = max(needed, questions_needed(tested / met, effort.enough))
    askable = _askable(survivors, calls) if effort.every_gap else {}
    calls_needed = effort.calls + (len(found.calls) < effort.calls)
    if met:
        needed = max(needed, calls_needed - len(found.calls), _distinguishable(mutants, survivors, askable))
    needed += len(compared.changed)
    shown = {n for n, differing in survivors.differing.items() if differing.keys() & reference.agreed}
    proved = {n: killed or n in compared.killed or n in shown for n, killed in mutants.items()}
    killed, met = _killed(proved, found, made, constant=bool(found.constant) and not varied)
    few = len(found.calls) + len(known) < calls_needed or _distinguishable(proved, survivors, askable)
    enough = (not unknown and (not met or (killed / met >= effort.enough and not few))) or stated >= needed
    stating = {*known, *compared.unasked, *compared.unspecified, *compared.repeated}
    untested = [each for each in untested if not any(each in calls.names(survivors.calls[n]) for n in stating)]
    unsettled = _passing(untested, survivors, calls)
    passing = dict(islice(unsettled.items(), max(0, MOST_QUESTIONS - stated)))
    enough = enough and not passing and len(compared.unspecified) <= MOST_UNSPECIFIED
    owed = len(reference.changed) - len(compared.agreed)  # only the author can answer these, not the reference
    enough = enough and owed <= 0 and not compared.disputed and not reference.problems
    disputed = tuple(predictions[n] for n in compared.disputed)
    more: list[Question] = []
    if not enough and not disputed and not reference.problems:
        most = min(AT_ONCE, max(needed - stated, owed, len(passing), 1))
        left = [n for n, killed in proved.items() if not killed]
        constants = [found.constant_answer] if found.constant else []
        more = _chosen(survivors, left, calls, constants, most, agreed=known, passing=passing)
        if not more and not compared.unspecified and not unknown:  # nothing can be asked
            enough = bool(met) and killed / met >= effort.threshold
    disputed += reference.disputed
    questions = (*(Question(each.arguments, disputed=True) for each in disputed), *more)
    agreed = tuple(predictions[n] for n in sorted((*compared.agreed, *compared.unasked)))
    constant = "" if varied else found.constant
    return Evidence(
        proved,
        met,
        killed,
        needed,
        compared,
        questions,
        disputed,
        agreed,
        enough,
        constant,
        reference,
        unknown=unknown,
        refused=_all_refused(survivors, known),
        survivors=survivors,
        untested=tuple(untested),
    )


def _passing(options: Sequence[str], survivors: Survivors, calls: JsonCalls) -> dict[str, list[int]]:
    """Return calls that pass each option and that the author can be asked about, short ones first.

    Where there are calls in which the option is seen to change the result, only these are returned.
    """
    askable = _askable(survivors, calls)
    tested = range(survivors.predicted + survivors.new, len(survivors.calls))
    plain = {calls.key(survivors.calls[at]): survivors.truth[at] for at in tested if at in survivors.truth}

    def effect(at: int, option: str) -> int:
        """Return 0 if the option changes the result of a tested call, 1 if that is unknown, and 2 otherwise."""
        call, answer = survivors.calls[at], survivors.truth[at]
        without = plain.get(calls.key({**call, "named": {k: v for k, v in call["named"].items() if k != option}}))
        if "raised" in answer or (without is not None and same_answer(answer, without)):
            return 2
        return int(without is None)

    found: dict[str, list[int]] = {}
    for option in options:
        ats = [at for at in askable if option in calls.names(survivors.calls[at])]
        best = min((effect(at, option) for at in ats), default=0)
        if ats:
            found[option] = sorted(
                (at for at in ats if effect(at, option) == best), key=lambda at: (len(json.dumps(askable[at])), at)
            )
    return found


def _all_refused(survivors: Survivors, known: Sequence[int]) -> int:
    """Return the number of new calls and agreed predictions if the code raises an exception for all of them.

    The result is 0 if the code returns a value for one of them, or if there are fewer than `_LEAST_REFUSED` of them.
    """
    new = range(survivors.predicted, survivors.predicted + survivors.new)
    given = [survivors.truth[at] for at in (*new, *known) if at in survivors.truth]
    return len(given) if len(given) >= _LEAST_REFUSED and all("raised" in each for each in given) else 0


def questions_needed(share: float, enough: float) -> int:
    """Return how many questions to ask if the tests kill the share `share` of the mutants, and should kill `enough`."""
    return 0 if share >= enough else min(MOST_QUESTIONS, math.ceil((1 - share) * 2 * MOST_QUESTIONS))


def _killed(mutants: Mapping[int, bool], found: JudgedTests, made: int, *, constant: bool) -> tuple[int, int]:
    """Return how many mutants are killed, and how many count.

    If one constant answer satisfies every test, mutants that only raise exceptions do not count as killed. Any test
    fails on an exception, so code that raises an exception after any change would otherwise need no real tests.
    """
    killed = [number for number, seen in mutants.items() if seen]
    if not constant:
        return len(killed), len(mutants)
    return sum(number not in found.raising for number in killed), made if mutants else 0


def _chosen(
    survivors: Survivors,
    left: Sequence[int],
    calls: JsonCalls,
    known: Sequence[Data],
    most: int,
    *,
    agreed: Sequence[int],
    passing: Mapping[str, Sequence[int]],
) -> list[Question]:
    """Choose calls to ask about.

    Args:
        left: The numbers of the surviving mutants.
        known: Answers that are no longer new.
        most: The largest number of questions.
        agreed: The indices of the calls whose results the author predicted.
        passing: For each option that no test passes, calls that pass it. One of each is chosen.
    """
    askable = _askable(survivors, calls)
    exposes = {at: {mutant for mutant in left if at in survivors.differing.get(mutant, ())} for at in askable}
    size = {at: len(json.dumps(arguments)) for at, arguments in askable.items()}
    tested = [len(json.dumps(each)) for call in calls.examples if (each := calls.arguments(call)) is not None]
    usual = max(tested, default=0)
    answers, uncovered, chosen = list(known), set(left), list[int]()

    def gain(at: int) -> tuple[float, bool, float]:
        """Rank the call with this index as the next question. Calls that distinguish more mutants rank higher."""
        value = "value" in survivors.truth[at]
        exposed = len(exposes[at] & uncovered) * (1.0 if value else _RAISING)
        new = value and not any(same_answer(survivors.truth[at], each) for each in answers)
        if exposed:
            return exposed, new, -abs(size[at] - usual)
        return 0.0, new, -abs(size[at] - (0 if len(chosen) % 2 else _LONG * usual))

    rest = set(askable)
    options = [max(ats, key=lambda at: len(exposes[at])) for ats in passing.values()]
    while rest and len(chosen) < most:
        forced = [at for at in options if at in rest]
        best = forced[0] if forced else max(sorted(rest), key=gain)
        rest.remove(best)
        uncovered -= exposes[best]
        answers.append(survivors.truth[best])
        chosen.append(best)
    raising = [at for at in rest if "raised" in survivors.truth[at]]
    if len(chosen) > max(1, len(options)) and raising and not _exception_stated(survivors, (*agreed, *chosen)):
        chosen[-1] = min(raising, key=lambda at: (-len(exposes[at]), abs(size[at] - usual), at))
    return [Question(askable[at]) for at in chosen]


def _exception_stated(survivors: Survivors, known: Sequence[int]) -> bool:
    """Return whether the skill raises an exception for a call of the tests or for one of the calls in `known`."""
    tested = range(survivors.predicted + survivors.new, len(survivors.calls))
    return any("raised" in survivors.truth.get(at, {}) for at in (*tested, *known))


def _distinguishable(mutants: Mapping[int, bool], survivors: Survivors, askable: Mapping[int, Any]) -> bool:
    """Return whether a call that the author can be asked about distinguishes a surviving mutant from the code."""
    return any(
        not killed and bool(survivors.differing.get(number, {}).keys() & askable.keys())
        for number, killed in mutants.items()
    )


def _askable(survivors: Survivors, calls: JsonCalls) -> dict[int, dict[str, Any]]:
    """Return the JSON arguments of the new calls that the author can be asked about, by the index of the call."""
    known = {calls.key(call) for call in survivors.calls[: survivors.predicted]}
    found: dict[int, dict[str, Any]] = {}
    for at in range(survivors.predicted, survivors.predicted + survivors.new):
        truth = survivors.truth.get(at)
        if truth is not None and can_be_stated(truth.get("value")) and calls.key(survivors.calls[at]) not in known:
            arguments = calls.arguments(survivors.calls[at])
            if arguments is not None and len(json.dumps(arguments)) <= MOST_SHOWN:
                found[at] = arguments
    return found
