"""Writes the comment that a Node skill lacks, with the types of the arguments and results in its cases (SKILL-22)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from acquired_skills.model.prediction import Prediction
from acquired_skills.proof.programs.doc_comments import UndescribedFunction

_MOST_FIELDS = 12
_MOST_DEPTH = 3
_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", dict: "object"}


def suggested_comment(function: UndescribedFunction, cases: Sequence[Prediction]) -> str:
    """Return a comment for a function, according to the expected results of calls.

    A parameter without a name in the code gets one that the calls use. Parameters at the end that no call passes are
    left out, since no call would show what they do.
    """
    used = list(dict.fromkeys(name for case in cases for name in case.arguments))
    unknown = [name for name in used if name not in function.parameters]
    names = [name or (unknown.pop(0) if unknown else "options") for name in function.parameters] or used
    while len(names) > 1 and names[-1] not in used:
        names.pop()
    lines = [line for name in names for line in _parameter(name, [case.arguments for case in cases])]
    results = [case.checks["result"] for case in cases if "result" in case.checks]
    lines += [f" * @returns {{{_type(results)}}}"] if results else []
    tag = [f" * @function {function.tag}"] if function.tag else []
    return "\n".join(["/**", *tag, *lines, " */"])


def _parameter(name: str, calls: Sequence[Mapping[str, Any]], inside: str = "") -> Iterator[str]:
    given = [call[name] for call in calls if name in call]
    written = inside + name
    yield f" * @param {{{_type(given)}}} {written if given and len(given) == len(calls) else f'[{written}]'}"
    if given and not inside and all(isinstance(each, dict) for each in given):
        fields = dict.fromkeys(field for each in given for field in each)
        options = len(given) < len(calls) or any(all(field in each for each in given) for field in fields)
        # Objects that every call passes and that share no field are data, not options.
        if options and len(fields) <= _MOST_FIELDS and all(field.isidentifier() for field in fields):
            optional = [*given, {}]  # that every case has a field does not mean that every call needs it
            for field in fields:
                yield from _parameter(field, optional, f"{written}.")


def _type(values: Sequence[Any], depth: int = 0) -> str:
    """Return the type of some JSON values, as JSDoc writes it."""
    if not values or depth > _MOST_DEPTH:
        return "any"
    found = {_NAMES.get(type(each), "") for each in values} - {""}
    if any(isinstance(each, list) for each in values):
        items = _type([item for each in values if isinstance(each, list) for item in each], depth + 1)
        found.add(f"({items})[]" if " " in items else f"{items}[]")
    if "number" in found:
        found.discard("integer")
    return " | ".join(sorted(found, key=lambda name: (name == "null", name)))
