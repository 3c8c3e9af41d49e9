"""Calls a similar skill, in its own box, with the arguments that a new skill's tests used (SKILL-8)."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from acquired_skills.in_box.function_forms import EagerFunction
from acquired_skills.in_box.json_values import to_json
from acquired_skills.in_box.skill_arguments import accept


def answers(
    name: str, plain: bool, inferred: Mapping[str, str], calls: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Make calls to a skill and return its answers.

    Args:
        plain: Whether the skill takes and returns plain JSON.
        inferred: The inferred type hints of its parameters.
        calls: The ``positional`` and ``named`` arguments of each call.

    Returns:
        ``value`` or ``raised`` (the name of the exception's type) for each call.
    """
    function = getattr(importlib.import_module(name), name)

    def answer(positional: list[Any], named: dict[str, Any]) -> Any:
        if plain:
            return EagerFunction(function)(*positional, **named)
        given = signature(function).bind(*positional, **named).arguments
        return EagerFunction(function)(**accept(function, given, inferred))

    return [_answer(answer, name, call["positional"], call["named"]) for call in calls]


def _answer(answer: Callable[..., Any], module: str, positional: list[Any], named: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"value": to_json(answer(positional, named), module)}
    except Exception as problem:  # noqa: BLE001 -- any exception is an answer
        return {"raised": type(problem).__name__}
