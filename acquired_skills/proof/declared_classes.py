"""Rewrites a class of a skill for the box in which the tests are judged without the skill's code (SKILL-7).

The class keeps its fields. It keeps `__init__` and `__post_init__` only if they do nothing but set attributes from
their parameters, because their code runs in the same process as the tests. Two instances are equal if all their fields
are equal; the class's own `__eq__` is not used. A call of any other method counts as a use of the skill's code.

The helpers with names such as `__unavailable__` come from `acquired_skills.in_box.fake_skill`.
"""

import ast
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

_FIELD_CALLS = frozenset(("Field", "auto", "field", "ConfigDict", "dataclass"))
_FIELD_BASES = frozenset(
    ("BaseModel", "Enum", "Flag", "IntEnum", "IntFlag", "NamedTuple", "Protocol", "StrEnum", "TypedDict")
)
_OTHER_BASES = frozenset(("ABC", "Generic", "object"))
_MARKS = frozenset(("dataclass", "final", "total_ordering"))
_METHOD_MARKS = frozenset(("abstractmethod", "cached_property", "classmethod", "override", "property", "staticmethod"))
_VALUES = frozenset(("cached_property", "property"))
# Methods that change how attributes are set and found. A class that defines one of them is not rewritten.
_HOOKS = frozenset(
    ("__class__", "__class_getitem__", "__delattr__", "__dict__", "__getattr__", "__getattribute__", "__new__",
     "__init_subclass__", "__set_name__", "__setattr__", "_generate_next_value_", "_missing_")
)  # fmt: skip
_SPECIAL_FIELDS = frozenset(("__hash__", "__match_args__", "__slots__", "__test__"))
_OF_FRAMES = ("ag_", "co_", "cr_", "f_", "gi_", "tb_")  # prefixes of attributes that give access to stack frames
_DROPPED = frozenset(
    ("__ne__", "__hash__", "__repr__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__del__")
)
_CONSTRUCTORS = frozenset(("__init__", "__post_init__"))
_SAFE_CALLS = frozenset(
    ("abs", "bool", "dict", "enumerate", "float", "frozenset", "int", "isinstance", "len", "list", "max", "min",
     "range", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip")
)  # fmt: skip
_SAFE_ERRORS = frozenset(("TypeError", "ValueError", "IndexError", "KeyError"))
_SAFE_NODES = (
    ast.Name, ast.Constant, ast.Attribute, ast.Call, ast.keyword, ast.Compare, ast.BoolOp, ast.BinOp, ast.UnaryOp,
    ast.IfExp, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.Subscript, ast.Slice, ast.Starred, ast.JoinedStr,
    ast.FormattedValue, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.comprehension,
    ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip


def rewritten_class(node: ast.ClassDef, known: AbstractSet[str]) -> ast.ClassDef | None:
    """Return a class without the code of its methods, for the tests; None if it cannot be rewritten.

    Args:
        known: Names of the classes that are defined above it.
    """
    marks = [_last_name(each) for each in node.decorator_list]
    bases = [_last_name(base) for base in node.bases]
    functions = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    names = {each.name for each in functions}
    body = [each for each in node.body if each not in functions]
    if (
        not _MARKS.issuperset(marks)
        or not (_FIELD_BASES | _OTHER_BASES | known).issuperset(bases)
        or any(each.arg == "metaclass" and _last_name(each.value) != "ABCMeta" for each in node.keywords)
        or not all(is_quiet(each) for each in (*node.decorator_list, *node.bases, *node.keywords))
        or names & _HOOKS
        or not all(_METHOD_MARKS.issuperset(_marks(each)) for each in functions)
        or ("BaseModel" in bases and names & {*_CONSTRUCTORS, "model_post_init"})
        or not all(_is_field(each) for each in body)
    ):
        return None
    for function in functions:
        body += _rewritten_method(node, function, known)
    if "__repr__" in names or not (marks or _FIELD_BASES.intersection(bases)):
        body += ast.parse("__repr__ = __shown__").body
    if "__eq__" in names:
        body += ast.parse(f"__hash__ = {'__hash_of_class__' if '__hash__' in names else None}").body
    return ast.ClassDef(
        node.name,
        [base for base, name in zip(node.bases, bases, strict=True) if name != "ABC"],
        [each for each in node.keywords if each.arg != "metaclass"],
        body or [ast.Pass()],
        [each for each, mark in zip(node.decorator_list, marks, strict=True) if mark == "dataclass"],
    )


def is_quiet(node: ast.AST) -> bool:
    """Return whether all calls in a node only define fields, so that evaluating it runs none of the skill's code."""
    for each in ast.walk(node):
        match each:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _FIELD_CALLS:
                continue
            case ast.Call() | ast.Lambda() | ast.Await() | ast.NamedExpr() | ast.comprehension():
                return False
            case ast.Attribute(attr=name) | ast.Name(id=name) if name.startswith("__"):
                return False
    return True


def _is_field(node: ast.stmt) -> bool:
    match node:
        case ast.Pass() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return (not _is_special(name) or name in _SPECIAL_FIELDS) and is_quiet(value)
        case ast.AnnAssign(target=ast.Name(), annotation=annotation, value=value):
            return is_quiet(annotation) and (value is None or is_quiet(value))
    return False


def _rewritten_method(
    node: ast.ClassDef, function: ast.FunctionDef | ast.AsyncFunctionDef, known: AbstractSet[str]
) -> Iterator[ast.stmt]:
    name, full = function.name, f"{node.name}.{function.name}"
    if name in _CONSTRUCTORS and isinstance(function, ast.FunctionDef) and _only_sets(function, known | {node.name}):
        for each in ast.walk(function):
            if isinstance(each, ast.AnnAssign):
                each.annotation = ast.Constant(None)
        yield ast.FunctionDef(name, _without_annotations(function.args), function.body, [])
    elif name == "__eq__":
        yield from ast.parse("__eq__ = __same_fields__").body
    elif name not in _DROPPED:
        made = f"__unavailable__({full!r})"
        is_value = bool(_VALUES.intersection(_marks(function)))
        yield from ast.parse(f"{name} = {f'property({made})' if is_value else made}").body


def _without_annotations(arguments: ast.arguments) -> ast.arguments:
    def bare(given: list[ast.arg]) -> list[ast.arg]:
        return [ast.arg(each.arg) for each in given]

    return ast.arguments(
        bare(arguments.posonlyargs),
        bare(arguments.args),
        ast.arg(arguments.vararg.arg) if arguments.vararg else None,
        bare(arguments.kwonlyargs),
        arguments.kw_defaults,
        ast.arg(arguments.kwarg.arg) if arguments.kwarg else None,
        arguments.defaults,
    )


def _only_sets(function: ast.FunctionDef, known: AbstractSet[str]) -> bool:
    """Return whether a constructor only computes values from its parameters and sets attributes of its instance."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    defaults = [*arguments.defaults, *(each for each in arguments.kw_defaults if each is not None)]
    if function.decorator_list or not arguments.args or not all(_is_literal(each) for each in defaults):
        return False
    names = {each.arg for each in every if each is not None}
    for each in ast.walk(ast.Module(function.body, [])):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            names.add(each.id)
    return _are_simple(function.body, arguments.args[0].arg, names, known)


def _are_simple(body: list[ast.stmt], own: str, names: AbstractSet[str], known: AbstractSet[str]) -> bool:
    """Return whether statements only assign to local names and to attributes of the object named `own`, or raise."""

    def are_safe(*nodes: ast.expr | ast.keyword | None) -> bool:
        return all(node is None or _is_safe(node, names, known) for node in nodes)

    def is_simple(node: ast.stmt) -> bool:  # noqa: PLR0911 -- one return per kind
        match node:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                return True
            case ast.Expr(ast.Call(ast.Attribute(ast.Call(ast.Name(id="super"), [], []), attr), args, given)):
                return attr in _CONSTRUCTORS and are_safe(*args, *given)
            case ast.Assign(targets=targets, value=value):
                return are_safe(value) and all(_is_target(each, own) for each in targets)
            case ast.AnnAssign(target=target, value=value):
                return are_safe(value) and _is_target(target, own)
            case ast.If(test=test, body=then, orelse=otherwise):
                return are_safe(test) and all(map(is_simple, (*then, *otherwise)))
            case ast.Raise(exc=ast.Call(func=ast.Name(id=kind), args=args, keywords=[]), cause=None):
                return kind in _SAFE_ERRORS and are_safe(*args)
        return False

    return all(map(is_simple, body))


def _is_target(node: ast.expr, own: str) -> bool:
    match node:
        case ast.Name(id=name):
            return name != own
        case ast.Attribute(value=ast.Name(id=name), attr=attr):
            return name == own and not _is_special(attr)
        case ast.Tuple(elts=targets):
            return all(_is_target(each, own) for each in targets)
    return False


def _is_safe(node: ast.AST, names: AbstractSet[str], known: AbstractSet[str]) -> bool:
    """Return whether an expression only combines values, using known safe functions and the skill's classes."""
    for each in ast.walk(node):
        if not isinstance(each, _SAFE_NODES):
            return False
        match each:
            case ast.Call(func=ast.Name(id=name)) if name not in names and name in _SAFE_CALLS | known:
                continue
            case ast.Call():
                return False
            case ast.Name(id=name) if name not in names | known | _SAFE_CALLS:
                return False
            case ast.Attribute(attr=attr) if _is_special(attr) or attr.startswith(_OF_FRAMES):
                return False
    return True


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _marks(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    return [_last_name(each) for each in function.decorator_list]


def _last_name(node: ast.expr) -> str:
    """Return the last name in ``a.b.name``, ``name(...)`` or ``name[...]``."""
    match node:
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return _last_name(inner)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""
