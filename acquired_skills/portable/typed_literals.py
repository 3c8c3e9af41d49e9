"""Writes JSON values as Python source of an annotated type, such as ``(1, 2)`` for ``tuple[int, int]``.

Annotations are read from the syntax tree and never evaluated.
"""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

_TEXTS: Mapping[str, tuple[str, str]] = {  # the expression that converts a string to the type, and its import
    "date": ("date.fromisoformat({})", "from datetime import date"),
    "datetime": ("datetime.fromisoformat({})", "from datetime import datetime"),
    "time": ("time.fromisoformat({})", "from datetime import time"),
    "Decimal": ("Decimal({})", "from decimal import Decimal"),
    "Fraction": ("Fraction({})", "from fractions import Fraction"),
    "Path": ("Path({})", "from pathlib import Path"),
    "UUID": ("UUID({})", "from uuid import UUID"),
}
_SETS = {"set": "set", "Set": "set", "AbstractSet": "set", "frozenset": "frozenset", "FrozenSet": "frozenset"}


def literal_of(value: Any, annotation: ast.expr | None) -> str:
    """Return a JSON value as a Python expression of the annotated type."""
    kind, inner = parts_of(annotation, value)
    match value:
        case list() if kind in ("tuple", "Tuple"):
            items = [literal_of(each, _item(inner, number)) for number, each in enumerate(value)]
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        case list():
            items = [literal_of(each, inner[0] if inner else None) for each in value]
            text = f"[{', '.join(items)}]"
            return f"{_SETS[kind]}({text})" if kind in _SETS else text
        case dict():
            key, held = inner if len(inner) == 2 else (None, None)  # noqa: PLR2004 -- keys and values
            number = name_of(key) == "int"
            pairs = (
                (repr(int(name)) if number and name.lstrip("-").isdecimal() else repr(name), literal_of(each, held))
                for name, each in value.items()
            )
            return f"{{{', '.join(f'{name}: {each}' for name, each in pairs)}}}"
        case str() if kind in _TEXTS:
            return _TEXTS[kind][0].format(repr(value))
        case int() if kind == "float" and not isinstance(value, bool):
            return repr(float(value))
    return repr(value)


def imports_of(annotations: Sequence[ast.expr | None]) -> list[str]:
    """Return the imports that literals of these annotations may need."""
    names = {name_of(each) for found in annotations if found is not None for each in ast.walk(found)}
    return sorted(_TEXTS[name][1] for name in names if name in _TEXTS)


def parts_of(annotation: ast.expr | None, value: Any = ...) -> tuple[str, list[ast.expr]]:
    """Return the name and the arguments of a type: ``list`` and ``[int]`` for ``list[int]``.

    For a union, they are those of its first member that is not None. The name is "" if the annotation has no name, or
    if it is a union and the value is None.
    """
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            return parts_of(ast.parse(annotation.value, mode="eval").body, value)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return "", []
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        sides = [each for each in (annotation.left, annotation.right) if not _is_none(each)]
        return parts_of(sides[0], value) if sides and value is not None else ("", [])
    if not isinstance(annotation, ast.Subscript):
        return name_of(annotation), []
    inner = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    name = name_of(annotation.value)
    if name in ("Optional", "Union", "Annotated"):
        sides = [each for each in inner if not _is_none(each)]
        return parts_of(sides[0], value) if sides and value is not None else ("", [])
    return name, inner


def name_of(node: ast.AST | None) -> str:
    """Return the last part of a name, such as ``date`` for ``datetime.date``; "" for any other node."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _item(inner: Sequence[ast.expr], number: int) -> ast.expr | None:
    """Return the annotation of one item of a tuple type, such as ``tuple[int, ...]`` or ``tuple[int, str]``."""
    if len(inner) == 2 and isinstance(inner[1], ast.Constant) and inner[1].value is ...:  # noqa: PLR2004 -- and the dots
        return inner[0]
    return inner[number] if number < len(inner) else None
