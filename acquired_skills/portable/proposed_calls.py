"""Proposes calls of a function, so that its author can predict their results. The function is not run.

The calls are derived from the examples in the docstring or, if there are none, from the annotations. Some arguments are
replaced by boundary values.
"""

import ast
import doctest
import json
from collections.abc import Iterator, Mapping
from typing import Any

from acquired_skills.portable.typed_literals import parts_of
from acquired_skills.proof.boundary_calls import boundary_calls
from acquired_skills.proof.json_calls import as_json

MOST_CALLS = 6
_MOST_CHARS = 200  # maximum number of characters of the arguments of one call
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SAMPLES: Mapping[str, Any] = {
    "str": "Hello World",
    "int": 7,
    "float": 2.5,
    "complex": 2.5,
    "bool": True,
    "Decimal": "2.50",
    "date": "2024-02-29",
    "datetime": "2024-02-29T12:30:00",
    "time": "12:30:00",
    "Number": 7,
}
_LISTS = frozenset(("list", "List", "Sequence", "Iterable", "Collection", "set", "Set", "frozenset", "FrozenSet"))
_DICTS = frozenset(("dict", "Dict", "Mapping", "MutableMapping"))
_WRITTEN = frozenset(("date", "datetime", "time", "Decimal", "Fraction", "Path", "UUID", "Literal"))
_VARIED: Mapping[str, list[Any]] = {
    "str": ["pear", "apple", "fig"],
    "int": [3, 1, 2],
    "float": [2.5, 0.5, 1.5],
    "": [3, 1, 2],
}


def proposed_calls(node: _Function) -> list[dict[str, Any]]:
    """Return at most `MOST_CALLS` calls. Each is a mapping from parameter names to arguments.

    The list is empty if the docstring has no examples and the annotations are missing or unknown.
    """
    stated = list(_of_examples(node))
    seeds = stated or list(_samples(node))
    fixed = {each.arg for each in (*node.args.args, *node.args.kwonlyargs) if _is_fixed(each.annotation)}
    found = [] if stated else seeds
    for seed in seeds:
        varied = {name: _packed(value) for name, value in seed.items() if name not in fixed}
        for call in boundary_calls([{"arguments": [], "named": varied}], MOST_CALLS):
            changed = {name: as_json(value) for name, value in call["named"].items()}
            found = [*found, {name: changed.get(name, value) for name, value in seed.items()}]
    unique = {json.dumps(each, sort_keys=True): each for each in found if each not in stated}
    return [each for text, each in unique.items() if len(text) <= _MOST_CHARS][:MOST_CALLS]


def _is_fixed(annotation: ast.expr | None) -> bool:
    """Return whether a parameter accepts only strings in a fixed format, such as dates.

    Such parameters have no boundary values.
    """
    return parts_of(annotation)[0] in _WRITTEN


def _of_examples(node: _Function) -> Iterator[dict[str, Any]]:
    """Yield the arguments of the calls in the docstring's examples."""
    names = [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]
    try:
        examples = doctest.DocTestParser().get_examples(ast.get_docstring(node) or "")
    except ValueError:
        return
    for example in examples:
        try:
            (statement,) = ast.parse(example.source).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for each in ast.walk(statement):
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == node.name:
                pairs = [
                    *zip(names, each.args, strict=False),
                    *((keyword.arg or "", keyword.value) for keyword in each.keywords),
                ]
                try:
                    arguments = {name: ast.literal_eval(value) for name, value in pairs}
                    yield json.loads(json.dumps(arguments))
                except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
                    continue


def _samples(node: _Function) -> Iterator[dict[str, Any]]:
    """Yield arguments that fit the annotations, unless a parameter has neither a known annotation nor a default."""
    taken = node.args
    optional = {each.arg for each in taken.args[len(taken.args) - len(taken.defaults) :]}
    optional |= {each.arg for each, value in zip(taken.kwonlyargs, taken.kw_defaults, strict=True) if value is not None}
    found: dict[str, Any] = {}
    for each in (*taken.args, *taken.kwonlyargs):
        try:
            found[each.arg] = _sample(each.annotation)
        except LookupError:
            if each.arg not in optional:
                return
    if found:
        yield found


def _sample(annotation: ast.expr | None) -> Any:
    """Return a sample value of the annotated type.

    Raises:
        LookupError: There is no sample of this type.
    """
    kind, inner = parts_of(annotation)
    if kind in _SAMPLES:
        return _SAMPLES[kind]
    if kind == "Literal" and inner and isinstance(inner[0], ast.Constant):
        return inner[0].value
    if kind in _LISTS:
        of = parts_of(inner[0])[0] if inner else ""
        return list(_VARIED[of]) if of in _VARIED else [_sample(inner[0])]
    if kind in ("tuple", "Tuple") and inner:
        return [_sample(each) for each in inner if not isinstance(each, ast.Constant)]
    if kind in _DICTS:
        return {"a": _sample(inner[1]) if len(inner) == 2 else 1}  # noqa: PLR2004 -- keys and values
    raise LookupError(kind)


def _packed(value: Any) -> Any:
    """Convert a JSON value to packed data (`acquired_skills.in_box.packing`), the input of `boundary_calls`."""
    match value:
        case list():
            return [_packed(each) for each in value]
        case dict():
            return {"dict": [[name, _packed(each)] for name, each in value.items()]}
    return value
