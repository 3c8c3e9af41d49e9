"""In the box of one skill: makes the recorded calls of another skill's tests (SKILL-8)."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from acquired_skills.in_box.skill_arguments import accept, to_json


def answers(name: str, plain: bool, calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return ``value`` or ``raised`` (the type's name) for each call's ``positional`` and ``named`` arguments.

    plain: the skill takes and returns plain JSON.
    """
    function = getattr(importlib.import_module(name), name)
    return [_answer(function, plain, call["positional"], call["named"]) for call in calls]


def _answer(function: Callable[..., Any], plain: bool, positional: list[Any], named: dict[str, Any]) -> dict[str, Any]:
    try:
        if plain:
            return {"value": to_json(function(*positional, **named))}
        given = signature(function).bind(*positional, **named).arguments
        return {"value": to_json(function(**accept(function, given)))}
    except Exception as problem:  # noqa: BLE001 -- any exception is an answer
        return {"raised": type(problem).__name__}
