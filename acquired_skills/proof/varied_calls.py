"""Helpers that replace arguments in the calls of tests and choose among the new calls (SKILL-6, GATE-1).

Calls are data (`acquired_skills.in_box.packing`).
"""

import json
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

from acquired_skills.proof.answers import Data

Place = tuple[str, int | str]  # "arguments" and an index, or "named" and a parameter's name


def argument_places(call: Data) -> list[Place]:
    """Return the place of each argument of a call."""
    return [*(("arguments", i) for i in range(len(call["arguments"]))), *(("named", name) for name in call["named"])]


def with_argument(call: Data, place: Place, value: Any) -> dict[str, Any]:
    """Return the call with another value for one argument."""
    field, at = place
    held: Any = list(call[field]) if field == "arguments" else dict(call[field])
    held[at] = value
    return {**call, field: held}


def take_in_turn(rows: Iterable[Sequence[dict[str, Any]]], known: Sequence[Data], most: int) -> list[dict[str, Any]]:
    """Take one call from each row in turn, up to `most` calls. Skip repeated calls and those in `known`."""
    seen = {value_key(call) for call in known}
    chosen: list[dict[str, Any]] = []
    for turn in zip_longest(*rows):
        for each in turn:
            if len(chosen) == most:
                return chosen
            if each is not None and value_key(each) not in seen:
                seen.add(value_key(each))
                chosen.append(each)
    return chosen


def value_key(value: Any) -> str:
    """Return a canonical text of packed data. Equal values have equal keys."""
    return json.dumps(value, sort_keys=True)
