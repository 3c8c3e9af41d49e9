"""Writes the arguments of a question as the asserts write them: JSON has no tuples, so a question contains lists."""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from bench.admission.problems import Problem, is_call_of


def call_text(problem: Problem, arguments: Mapping[str, Any]) -> str:
    """Return a call of the problem's function as source text.

    A list becomes a tuple where the asserts have a tuple. Where they have no sequence, the data says which is meant.
    """
    shapes = _examples(problem)
    otherwise = tuple if problem.data["tuples"] else list
    given = (f"{name}={_shaped(value, shapes.get(name, ()), otherwise)!r}" for name, value in arguments.items())
    return f"{problem.name}({', '.join(given)})"


def _examples(problem: Problem) -> dict[str, list[Any]]:
    """Return the arguments in the asserts, by the name of the parameter."""
    names = next(
        [each.arg for each in node.args.args]
        for node in ast.walk(ast.parse(problem.data["code"]))
        if isinstance(node, ast.FunctionDef) and node.name == problem.name
    )
    found: dict[str, list[Any]] = {}
    for node in ast.walk(ast.parse("\n".join(problem.asserts))):
        if isinstance(node, ast.Call) and is_call_of(node, problem.name):
            for name, value in [
                *zip(names, node.args, strict=False),
                *((each.arg, each.value) for each in node.keywords),
            ]:
                try:
                    found.setdefault(str(name), []).append(ast.literal_eval(value))
                except ValueError:  # not a literal, such as a call
                    continue
    return found


def _shaped(value: Any, examples: Sequence[Any], otherwise: type[list[Any]] | type[tuple[Any, ...]]) -> Any:
    if not isinstance(value, list):
        return value
    sequences = [each for each in examples if isinstance(each, list | tuple)]
    inner = [item for each in sequences for item in each]
    kind = type(sequences[0]) if sequences else otherwise
    return kind([_shaped(each, inner, otherwise) for each in value])
