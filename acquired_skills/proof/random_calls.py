"""Makes random calls like those of the tests, in which several arguments may change at once (GATE-1).

In most similar calls and boundary calls, only one argument differs from a test. A fault that appears only with two
lists of the same length, or with two related numbers, is found only if several arguments change. Calls are data
(`acquired_skills.in_box.packing`), and the same seed gives the same calls.
"""

import random
from collections.abc import Sequence
from typing import Any

from acquired_skills.proof.answers import Data
from acquired_skills.proof.varied_calls import Place, argument_places, take_in_turn, value_key, with_argument

_SMALL = 12  # upper bound of many random numbers, because small numbers usually find the faults
_LONGEST = 12  # maximum number of items of a new list or text, so that an author can predict the result
_LARGE = 1_000_000_000  # larger numbers are not changed
_BEFORE = ("", "-", "+", " ", "--", ".", "0")  # placed before a text that represents a number
_TRIES = 3  # how many random calls to make for each one that is needed, because many are equal
_KEPT = 0.4  # probability that an argument stays unchanged


def random_calls(calls: Sequence[Data], most: int, seed: int) -> list[dict[str, Any]]:
    """Return at most `most` new calls, made by varying the calls of the tests in turn."""
    chance = random.Random(seed)  # noqa: S311 -- a choice, not a secret
    seen, found = {value_key(each) for each in calls}, list[dict[str, Any]]()
    usable = [call for call in calls if argument_places(call)]
    for number in range(_TRIES * most if usable else 0):
        if len(found) == most:
            break
        call = _varied(usable[number % len(usable)], usable, chance)
        if (key := value_key(call)) not in seen:
            seen.add(key)
            found.append(call)
    return found


def with_different_answers(calls: Sequence[dict[str, Any]], answers: Sequence[Data], most: int) -> list[dict[str, Any]]:
    """Choose calls with as many different answers as possible, short calls first.

    For example, if a function nearly always returns False, only the rare calls that return True test it.

    Args:
        answers: The skill's answers to the calls, in the same order; empty if there are no answers.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    for call, answer in sorted(zip(calls, answers, strict=False), key=lambda pair: len(value_key(pair[0]))):
        if "value" in answer:
            rows.setdefault(value_key(answer["value"]), []).append(call)
    return take_in_turn(sorted(rows.values(), key=len), (), most)


def _varied(call: Data, calls: Sequence[Data], chance: random.Random) -> dict[str, Any]:
    changed, places = dict(call), argument_places(call)
    always = chance.choice(places)
    for place in places:
        if place == always or chance.random() > _KEPT:
            given = [_at(each, place) for each in calls if place in argument_places(each)]
            changed = with_argument(changed, place, _like(chance.choice(given), chance))
    if len(places) > 1 and chance.random() < 1 / len(places):  # swap two arguments of the same kind
        one, other = chance.sample(places, 2)
        if type(_at(changed, one)) is type(_at(changed, other)):
            first, second = _at(changed, one), _at(changed, other)
            changed = with_argument(with_argument(changed, one, second), other, first)
    return changed


def _at(call: Data, place: Place) -> Any:
    return call[place[0]][place[1]]


def _like(value: Any, chance: random.Random) -> Any:
    """Return a random value of the same type as `value`."""
    match value:
        case bool():
            return chance.random() < 0.5  # noqa: PLR2004 -- either one
        case int() | float():
            return _number(value, chance)
        case str():
            return _text(value, chance)
        case list():
            return _items(value, chance)
        case dict() if len(value) == 1:
            return _tagged(*next(iter(value.items())), chance)
    return value


def _tagged(kind: str, inner: Any, chance: random.Random) -> dict[str, Any]:
    match kind, inner:
        case "tuple", list():
            return {kind: _items(inner, chance)}
        case (("set" | "frozenset"), list()):
            return {kind: list({value_key(each): each for each in _items(inner, chance)}.values())}
        case "dict", [*pairs] if pairs:
            others = [[key, _like(chance.choice(pairs)[1], chance)] for key, _ in pairs]
            return {kind: chance.sample(others, chance.randint(1, len(others)))}
    return {kind: inner}


def _number(value: float, chance: random.Random) -> float:
    if not abs(value) <= _LARGE:  # true for NaN, too
        return value
    size = int(abs(value))
    other: float = chance.choice((chance.randint(0, _SMALL), chance.randint(-size - 2, 2 * size + 2)))
    other = chance.choice((other, value + chance.randint(-3, 3), -value))
    return float(other + chance.choice((0, 0.5))) if isinstance(value, float) else other


def _text(value: str, chance: random.Random) -> str:
    letters = [*value, *value.swapcase(), *"aB1 "]
    match chance.randrange(4):
        case 0:
            return "".join(chance.sample(value, len(value)))
        case 1:
            length = chance.choice((len(value), chance.randint(0, _SMALL)))
            return "".join(chance.choice(letters) for _ in range(min(length, _LONGEST)))
        case 2:  # a text that is, or nearly is, a number
            digits = value if value.strip().isdigit() else str(chance.randint(0, _LARGE))
            return chance.choice(_BEFORE) + digits[:_LONGEST]
    at = chance.randint(0, len(value))
    return f"{value[:at]}{chance.choice(letters)}{value[at + chance.randint(0, 2) :]}"


def _items(items: list[Any], chance: random.Random) -> list[Any]:
    if not items:
        return []
    match chance.randrange(5):
        case 0:
            return chance.sample(items, len(items))
        case 1:
            return [_like(chance.choice(items), chance) for _ in items]
        case 2:
            return _shifted(items, chance)
        case 3:
            return [_like(chance.choice(items), chance) for _ in range(chance.randint(1, _LONGEST))]
    at = chance.randrange(len(items))
    return [*items[:at], chance.choice((chance.choice(items), _like(items[at], chance))), *items[at + 1 :]]


def _shifted(items: list[Any], chance: random.Random) -> list[Any]:
    """Return the items with the same number added to each; if they are not numbers, return them sorted."""
    if not all(isinstance(each, int | float) and type(each) is not bool and abs(each) <= _LARGE for each in items):
        return sorted(items, key=value_key)
    by = (max(items) - min(items) + 1) * chance.choice((-1, 1))
    return [each + by for each in items]
