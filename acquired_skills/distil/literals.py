"""Finds the literals of a program that could be parameters of a skill. The program is parsed, never run."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

Value = str | int | float
_LONGEST = 500  # characters of a text that could be an argument
_TOOLS = "tools"


@dataclass(frozen=True, slots=True)
class ProgramLiteral:
    """One literal in a program.

    Attributes:
        number: Its position among all literals of the program, in the order of the source. Programs of the same shape
            have the same positions.
        line, column: Where it is, as in `ast`.
        hint: A name for it: the keyword or the variable that it is given to; "" if there is none.
        assigned: Whether it is the whole value of an assignment to the variable `hint`, at the top level.
    """

    number: int
    value: Value
    line: int
    column: int
    hint: str = ""
    assigned: bool = False

    @property
    def place(self) -> tuple[int, int]:
        """Where the literal is, to find its node again."""
        return self.line, self.column


def literals_of(tree: ast.Module) -> list[ProgramLiteral]:
    """Return the literals that could be parameters, in the order of the source.

    Left out are booleans, docstrings, keys, the names of tools, and parts of f-strings.
    """
    assigned = {
        id(node.value): node.targets[0].id
        for node in tree.body
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
    }
    found = sorted(_constants(tree, ""), key=lambda each: (each[0].lineno, each[0].col_offset))
    return [
        ProgramLiteral(
            number,
            node.value,  # type: ignore[arg-type]  # `_constants` yields only these types
            node.lineno,
            node.col_offset,
            assigned.get(id(node), hint),
            id(node) in assigned,
        )
        for number, (node, hint) in enumerate(found)
    ]


def arguments_of_tools(tree: ast.Module) -> dict[tuple[int, int], tuple[str, str]]:
    """Return the tool and the argument that each literal is given to directly, by the place of the literal."""
    found: dict[tuple[int, int], tuple[str, str]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=tool)) if name == _TOOLS:
                pass
            case ast.Call(func=ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(tool)))) if (
                name == _TOOLS
            ):
                pass
            case _:
                continue
        for keyword in node.keywords:
            if keyword.arg and isinstance(keyword.value, ast.Constant):
                found[keyword.value.lineno, keyword.value.col_offset] = (tool, keyword.arg)
    return found


def shape_of(tree: ast.Module) -> str:
    """Return a text that is the same for programs that differ only in their literals."""
    copied = ast.parse(ast.unparse(tree))
    places = {each.place for each in literals_of(copied)}

    class Blank(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.AST:
            if (node.lineno, node.col_offset) in places and _is_value(node.value):
                return ast.Constant(type(node.value).__name__)
            return node

        def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
            for part in node.values:
                if isinstance(part, ast.FormattedValue):
                    self.visit(part)
            return node

    return ast.dump(Blank().visit(copied))


def _constants(  # noqa: C901, PLR0911, PLR0912 -- one branch per kind of node
    node: ast.AST, hint: str
) -> Iterator[tuple[ast.Constant, str]]:
    match node:
        case ast.Constant():
            if _is_value(node.value):
                yield node, hint
            return
        case ast.JoinedStr(values=values):
            for part in values:
                if isinstance(part, ast.FormattedValue):
                    yield from _constants(part.value, "")
            return
        case ast.Expr(value=ast.Constant()):  # a docstring, or a literal without effect
            return
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant()) if name == _TOOLS:
            return
        case ast.Subscript(value=value, slice=ast.Constant(value=str())):
            yield from _constants(value, "")
            return
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                named = key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""
                if key is not None and not isinstance(key, ast.Constant):
                    yield from _constants(key, "")
                yield from _constants(value, named)
            return
        case ast.Compare(left=ast.Name(id=name), comparators=[ast.Constant() as compared]):
            yield from _constants(compared, name)
            return
        case ast.Call():
            yield from _constants(node.func, "")
            for argument in node.args:
                yield from _constants(argument, "")
            for keyword in node.keywords:
                yield from _constants(keyword.value, keyword.arg or "")
            return
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(target=ast.Name(id=name), value=value)
        ):
            if value is not None:
                yield from _constants(value, name)
            return
    for child in ast.iter_child_nodes(node):
        yield from _constants(child, hint if isinstance(node, ast.List | ast.Tuple | ast.UnaryOp) else "")


def _is_value(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    return not isinstance(value, str) or 0 < len(value) <= _LONGEST
