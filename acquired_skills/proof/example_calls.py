"""`ExampleCalls`: recognizes the calls of a skill in the examples of docstrings, by whatever name (SKILL-19).

An example may call the skill by an alias in the code, such as the name that the function had before it became a skill.
It often imports the function from the package in which it was published, possibly under another name. Here that
function is the skill, and the package may not be installed. An example may wait for a coroutine with ``await`` or with
``asyncio.run``.
"""

import ast
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from acquired_skills.proof.snake_case import function_of

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class ExampleCalls:
    """The names by which the examples of one docstring call a skill.

    Attributes:
        name: The name of the skill.
        awaited: Whether the skill is a coroutine function.
        classes: The classes of the code, which an example may use.
        names: The names of the function in the code and in the examples.
        modules: The modules that stand for the code in the examples, such as ``package.module``.
    """

    name: str
    awaited: bool
    classes: tuple[str, ...]
    names: set[str]
    modules: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, name: str, tree: ast.Module) -> "ExampleCalls | None":
        """Return the names of a skill in its code.

        None means that examples cannot be used, because there is no such function, or its result is iterated with
        ``async for``.
        """
        names = {name, function_of(name, tree)} - {""}
        functions = [node for node in tree.body if isinstance(node, _Function) and node.name in names]
        if not functions:
            return None
        for node in tree.body:
            match node:
                case ast.Assign(targets=targets, value=ast.Name(id=value)) if value in names:
                    names |= {each.id for each in targets if isinstance(each, ast.Name)}
        awaited = isinstance(functions[-1], ast.AsyncFunctionDef)
        if awaited and any(isinstance(node, ast.Yield) for node in ast.walk(functions[-1])):
            return None
        classes = tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef))
        return cls(name, awaited, classes, names)

    def copy(self) -> "ExampleCalls":
        """Return a copy for another docstring, whose imports are not those of this one."""
        return replace(self, names=set(self.names), modules=set(self.modules))

    def imports(self, node: ast.Import | ast.ImportFrom, available: AbstractSet[str]) -> Iterator[str]:
        """Yield an import of an example, without the names that cannot be imported in the box.

        Names that it gives to the skill, or to the module of the skill, are remembered.
        """
        if isinstance(node, ast.ImportFrom):
            elsewhere = not node.level and (node.module or "").partition(".")[0] in available
            own = [each for each in node.names if each.name in self.names and not (each.asname and elsewhere)]
            self.names.update(each.asname or each.name for each in own)
            left = [each for each in node.names if each not in own and (each.asname or each.name) != self.name]
            if left and elsewhere:
                yield ast.unparse(ast.ImportFrom(node.module, left, 0))
            return
        left = [each for each in node.names if each.name.partition(".")[0] in available]
        self.modules.update(each.asname or each.name for each in node.names if each not in left)
        if left:
            yield ast.unparse(ast.Import(left))

    def direct(self, statement: ast.stmt) -> ast.stmt:
        """Rewrite a statement so that it calls the skill by its own name, and awaits it instead of running a new loop.

        Names that the statement gives to something else no longer stand for the skill.
        """
        self.names -= set(_bound(statement)) - {self.name}
        made: ast.stmt = _Direct(self).visit(statement)
        return ast.fix_missing_locations(made)

    def is_call(self, node: ast.AST) -> bool:
        """Return whether a node is a call of the skill by its name."""
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == self.name


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement assigns or deletes, and those of parameters."""
    for node in ast.walk(statement):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                yield name


class _Direct(ast.NodeTransformer):
    """Replaces the other names of a skill in an example."""

    def __init__(self, calls: ExampleCalls) -> None:
        self._calls = calls

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._calls.name, node.ctx) if node.id in self._calls.names else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if node.attr in self._calls.names and ast.unparse(node.value) in self._calls.modules:
            return ast.Name(self._calls.name, node.ctx)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        made = self.generic_visit(node)
        match made:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="asyncio"), attr="run"), args=[ast.Call() as inner], keywords=[]
            ) if self._calls.awaited and self._calls.is_call(inner):
                return ast.Await(inner)
        return made
