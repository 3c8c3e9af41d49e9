"""Extracts the declarations in a skill's file that its tests may import besides the function (SKILL-7).

The tests are judged without the skill's code. They get the constants, classes and exception types of the file, which
are rewritten from the syntax tree without the code of their methods (`acquired_skills.proof.declared_classes`).
"""

import ast
import builtins
import copy
from collections.abc import Iterator, Mapping

from acquired_skills.model.parsed import parse_source
from acquired_skills.proof.declared_classes import is_quiet, rewritten_class

_MODULES = frozenset(
    ("collections", "dataclasses", "datetime", "decimal", "enum", "pydantic", "typing", "typing_extensions")
)
_FUNCTIONAL = frozenset(("Enum", "IntEnum", "NamedTuple", "NewType", "StrEnum", "TypeVar", "TypedDict", "namedtuple"))

_EXCEPTIONS = frozenset(
    name for name, each in vars(builtins).items() if isinstance(each, type) and issubclass(each, Exception)
)
_STR_METHOD = parse_source("def __str__(self): return self.__dict__.get('_text', super().__str__())").body


def declarations(tree: ast.Module) -> str:
    """Return the source of the declarations, in the order of the file."""
    kept: list[ast.stmt] = []
    known: dict[str, bool] = {}  # the classes that are kept -> whether they are exceptions
    for node in copy.deepcopy(tree).body:
        kept += _declared(node, known)
    if any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body):
        for node in kept:
            _postpone_annotations(node)
    return "\n".join(ast.unparse(ast.fix_missing_locations(node)) for node in kept)


def _declared(node: ast.stmt, known: dict[str, bool]) -> Iterator[ast.stmt]:  # noqa: C901 -- one branch per kind
    match node:
        case ast.ImportFrom(module=module, names=names, level=0) if module in _MODULES:
            plain = [alias for alias in names if alias.name != "*"]
            if plain:
                yield ast.ImportFrom(module, plain, 0)
        case ast.Import(names=names):
            plain = [alias for alias in names if alias.name in _MODULES]
            if plain:
                yield ast.Import(plain)
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_constant(value) or _makes_class(value):
            yield node
            if not _is_constant(value):
                known[name] = False
        case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None and _is_constant(value):
            yield ast.Assign([ast.Name(name, ast.Store())], value, lineno=node.lineno)
        case ast.ClassDef(name=name, bases=[_, *_] as bases) if all(_is_exception(base, known) for base in bases):
            known[name] = True
            yield ast.ClassDef(name, bases, [], _STR_METHOD, [])
        case ast.ClassDef(name=name):
            rewritten = rewritten_class(node, {each for each, is_exception in known.items() if not is_exception})
            if rewritten is not None:
                known[name] = False
                yield rewritten


def _is_exception(base: ast.expr, known: Mapping[str, bool]) -> bool:
    return isinstance(base, ast.Name) and known.get(base.id, base.id in _EXCEPTIONS)


def _makes_class(node: ast.expr) -> bool:
    """Return whether an expression makes a class by a call, such as ``namedtuple("Point", "x y")``."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(), *_]):
            return name in _FUNCTIONAL and all(is_quiet(each) for each in (*node.args, *node.keywords))
    return False


def _postpone_annotations(node: ast.stmt) -> None:
    """Turn the annotations of a class into strings, as `from __future__ import annotations` does."""
    for each in ast.walk(node):
        if isinstance(each, ast.AnnAssign) and not isinstance(each.annotation, ast.Constant):
            each.annotation = ast.Constant(ast.unparse(each.annotation))


def _is_constant(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True
