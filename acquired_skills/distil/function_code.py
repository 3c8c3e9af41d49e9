"""Writes a program as a function: its chosen literals become parameters, and its last value becomes the result.

The program is parsed and written again, never run.
"""

import ast
import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass

from acquired_skills.distil.parameters import ChosenParameter
from acquired_skills.model.skill import SkillError

_LINES = "printed_lines"
_MAIN = "__main__"


class NotDistillable(SkillError):
    """A program cannot become a skill. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class FunctionText:
    """What the function is called, what its docstring says, and which tools it declares."""

    name: str
    description: str
    tools: Sequence[str]


def function_code(tree: ast.Module, parameters: Sequence[ChosenParameter], text: FunctionText) -> str:
    """Return a file with the program as a function, and the tools that it calls in its PEP 723 block.

    Raises:
        NotDistillable: The program has a form that no function has.
    """
    copied = ast.parse(ast.unparse(_Parameters(parameters).visit(copy.deepcopy(tree))))
    imports: list[ast.stmt] = []
    body: list[ast.stmt] = []
    dropped = {each.dropped for each in parameters if each.dropped}
    for statement in _unwrapped(copied.body):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            imports.append(statement)
        elif not (_docstring(statement) or _assigns(statement, dropped)):
            body.append(statement)
    if not body:
        raise NotDistillable("The program has no statements besides imports and literals.")
    _refuse(body)
    body = _returning(body)
    kind = ast.AsyncFunctionDef if any(_awaits(each) for each in body) else ast.FunctionDef
    arguments = ast.arguments(
        posonlyargs=[],
        args=[ast.arg(each.name, ast.Name(each.type)) for each in parameters],
        kwonlyargs=[],
        kw_defaults=[],
        defaults=[],
    )
    docstring = ast.Expr(ast.Constant(_docstring_of(parameters, text)))
    function = kind(text.name, arguments, [docstring, *body], [])
    module = ast.fix_missing_locations(ast.Module([function], []))
    tools = ", ".join(map(json.dumps, text.tools))
    block = f"# /// script\n# [tool.knackbox]\n# tools = [{tools}]\n# ///\n"
    heads = "\n".join(ast.unparse(each) for each in imports)
    return f"{block}{heads}\n\n\n{ast.unparse(module)}\n"


def _docstring_of(parameters: Sequence[ChosenParameter], text: FunctionText) -> str:
    lines = [f"    {' '.join(text.description.split())}"]
    if parameters:
        lines += ["", "    Args:"]
        lines += [f"        {each.name}: Such as {each.value!r}." for each in parameters]
    return "\n".join(lines).strip() + ("\n    " if parameters else "")


class _Parameters(ast.NodeTransformer):
    """Puts the names of parameters in the places of their literals."""

    def __init__(self, parameters: Sequence[ChosenParameter]) -> None:
        self._names = {place: each.name for each in parameters for place in each.places}

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        name = self._names.get((node.lineno, node.col_offset))
        return node if name is None else ast.copy_location(ast.Name(name), node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        node.values = [self.visit(each) if isinstance(each, ast.FormattedValue) else each for each in node.values]
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return node if isinstance(node.value, ast.Constant) else self.generic_visit(node)


def _unwrapped(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return the statements, with those of ``if __name__ == "__main__":`` in its place."""
    found: list[ast.stmt] = []
    for statement in body:
        match statement:
            case ast.If(
                test=ast.Compare(left=ast.Name(id="__name__"), comparators=[ast.Constant(value=value)]), body=inner
            ) if value == _MAIN:
                found += inner
            case _:
                found.append(statement)
    return found


def _docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _assigns(statement: ast.stmt, names: set[str]) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name in names
    return False


def _refuse(body: Sequence[ast.stmt]) -> None:
    for node in (inner for statement in body for inner in ast.walk(statement)):
        if isinstance(node, ast.Global):
            raise NotDistillable(
                f"Line {node.lineno} of the program has `global`, which a skill's function cannot have. Write the code "
                "of the skill yourself, and send it with `from_run`."
            )
        match node:
            case ast.Call(func=ast.Name(id="print"), keywords=[_, *_]):
                raise NotDistillable(
                    f"Line {node.lineno} of the program prints with keywords. Write the code of the skill so that it "
                    "returns its result, and send it with `from_run`."
                )


def _returning(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements of a function that returns what the program gave: its last value, or what it printed."""
    *first, last = body
    match last:
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"), args=[printed])) if not _prints(first):
            return [*first, ast.Return(printed)]
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
            pass
        case ast.Expr(value=value):
            return [*first, ast.Return(value)]
    if not _prints(body):
        return body
    start = ast.parse(f"{_LINES} = []").body
    end = ast.parse(f"def f():\n    return '\\n'.join({_LINES})").body[0]
    assert isinstance(end, ast.FunctionDef)  # noqa: S101 -- for the type checker
    return [*start, *(_Collected().visit(each) for each in body), *end.body]


def _prints(statements: Sequence[ast.stmt]) -> bool:
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
        for statement in statements
        for node in ast.walk(statement)
    )


class _Collected(ast.NodeTransformer):
    """Lets the program collect the lines that it printed."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id="print"), args=args):
                items = ast.Tuple(args, ast.Load())
                text = ast.parse("lines.append(' '.join(map(str, items)))", mode="eval").body
                filled: ast.AST = _Filled(items).visit(text)
                return filled
        return node


class _Filled(ast.NodeTransformer):
    def __init__(self, items: ast.expr) -> None:
        self._items = items

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id == "items":
            return self._items
        return ast.Name(_LINES) if node.id == "lines" else node


def _awaits(statement: ast.stmt) -> bool:
    """Return whether a statement awaits something outside of functions that it defines."""
    left: list[ast.AST] = [statement]
    while left:
        node = left.pop()
        if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            left += ast.iter_child_nodes(node)
    return False
