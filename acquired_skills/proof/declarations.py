"""Extracts from a skill's file the declarations that its tests may import besides the function (SKILL-7).

The tests are judged without the skill's code. Constants, enums, data classes, models and exception types that the file
only declares are rewritten from the syntax tree and passed to the tests. Anything with code of its own is not.
"""

import ast
import builtins
from collections.abc import Iterator

from acquired_skills.model.parsing import parse_source

_MODULES = frozenset(("dataclasses", "datetime", "decimal", "enum", "pydantic", "typing", "typing_extensions"))
_BASES = frozenset(
    ("BaseModel", "Enum", "Flag", "IntEnum", "IntFlag", "NamedTuple", "Protocol", "StrEnum", "TypedDict")
)
_CALLS = frozenset(("Field", "auto", "field", "ConfigDict", "dataclass"))

_EXCEPTIONS = frozenset(
    name for name, each in vars(builtins).items() if isinstance(each, type) and issubclass(each, Exception)
)
_STR_METHOD = parse_source("def __str__(self): return self.__dict__.get('_text', super().__str__())").body


def declarations(tree: ast.Module) -> str:
    """Return the source of the declarations, in the order of the file."""
    kept: list[ast.stmt] = []
    known: dict[str, bool] = {}  # classes kept, and whether they are exceptions
    for node in tree.body:
        kept += _declared(node, known)
    return "\n".join(ast.unparse(node) for node in kept)


def _declared(node: ast.stmt, known: dict[str, bool]) -> Iterator[ast.stmt]:
    match node:
        case ast.ImportFrom(module=module, names=names, level=0) if module in _MODULES:
            plain = [alias for alias in names if alias.name != "*"]
            if plain:
                yield ast.ImportFrom(module, plain, 0)
        case ast.Import(names=names):
            plain = [alias for alias in names if alias.name in _MODULES]
            if plain:
                yield ast.Import(plain)
        case ast.Assign(targets=[ast.Name()], value=value) if _is_constant(value):
            yield node
        case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None and _is_constant(value):
            yield ast.Assign([ast.Name(name, ast.Store())], value, lineno=node.lineno)
        case ast.ClassDef(name=name, bases=[ast.Name(id=base)]) if known.get(base, base in _EXCEPTIONS):
            known[name] = True
            yield ast.ClassDef(name, [ast.Name(base, ast.Load())], [], _STR_METHOD, [])
        case ast.ClassDef(name=name) if _is_plain(node, known):
            known[name] = False
            yield node


def _is_plain(node: ast.ClassDef, known: dict[str, bool]) -> bool:
    """Return whether a class only has fields: an enum, a model, a data class, or a named tuple."""
    bases = [base.id if isinstance(base, ast.Name) else getattr(base, "attr", "") for base in node.bases]
    marks = [ast.unparse(each).partition("(")[0].rpartition(".")[2] for each in node.decorator_list]
    if any(mark != "dataclass" for mark in marks) or not all(
        base in _BASES or known.get(base) is False for base in bases
    ):
        return False
    if not (bases or marks) or not all(_is_quiet(each) for each in (*node.decorator_list, *node.keywords)):
        return False
    return all(_is_field(each) for each in node.body)


def _is_field(node: ast.stmt) -> bool:
    match node:
        case ast.Pass() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Name()], value=value):
            return _is_quiet(value)
        case ast.AnnAssign(target=ast.Name(), annotation=annotation, value=value):
            return _is_quiet(annotation) and (value is None or _is_quiet(value))
    return False


def _is_quiet(node: ast.AST) -> bool:
    """Return whether nothing is called except what makes a field, so that no code of the skill runs."""
    for each in ast.walk(node):
        match each:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _CALLS:
                continue
            case ast.Call() | ast.Lambda() | ast.Await() | ast.NamedExpr() | ast.comprehension():
                return False
            case ast.Attribute(attr=name) | ast.Name(id=name) if name.startswith("__"):
                return False
    return True


def _is_constant(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True
