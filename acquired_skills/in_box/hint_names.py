"""Resolves type hints whose names are imported for type checkers only (`if TYPE_CHECKING:`). Runs in the box."""

import ast
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any


def resolved_hints(of: Callable[..., Any] | type) -> dict[str, Any]:
    """Return the type hints of a function or class of the skill.

    A name that only a type checker would import becomes `Any` if it cannot be imported.

    Raises:
        NameError: A hint uses an undefined name.
        TypeError, AttributeError, SyntaxError: A hint is invalid.
    """
    try:
        return typing.get_type_hints(of, include_extras=True)
    except NameError:
        module = sys.modules[of.__module__]
        names = _checked_names(module.__file__ or "")
        if not names:
            raise
        return typing.get_type_hints(of, {**names, **vars(module)}, include_extras=True)


def _checked_names(path: str) -> dict[str, Any]:
    """Return the names that the `if TYPE_CHECKING` blocks of a source file define."""
    names: dict[str, Any] = {}
    for node in ast.walk(ast.parse(Path(path).read_bytes())):
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"), body=body):
                for each in body:
                    _define(each, names)
    return names


def _define(node: ast.stmt, names: dict[str, Any]) -> None:
    try:
        if isinstance(node, ast.ImportFrom) and node.level:
            raise ImportError("a skill has no package")  # noqa: TRY301 -- like any module that is missing
        exec(compile(ast.Module([node], []), "<type checking>", "exec"), names)  # noqa: S102 -- in the box of the code itself
    except Exception:  # noqa: BLE001 -- the module may be missing, or the statement may need one that is
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound = [(each.asname or each.name).partition(".")[0] for each in node.names]
        else:
            bound = [each.id for each in ast.walk(node) if isinstance(each, ast.Name) and _is_bound(each)]
        names.update(dict.fromkeys(bound, Any))


def _is_bound(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)
