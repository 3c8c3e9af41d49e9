"""Finds functions that could become skills in the scripts of instructions, without running the scripts."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from acquired_skills.model.names import PATTERN
from acquired_skills.model.parsed import parse_source
from acquired_skills.portable.function_source import source_of
from acquired_skills.portable.reading import is_test, python_sources
from acquired_skills.proof.snake_case import snake_case
from acquired_skills.store.archive import Files

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_PROGRAMS = frozenset(("main", "cli"))  # names of functions that are usually the entry point of a script


@dataclass(frozen=True, slots=True)
class ScriptFunction:
    """One function of a script.

    Attributes:
        file: The path of the script in the instructions.
        name: The name of the function. The skill gets this name, converted to snake_case.
        node: The definition of the function.
        code: The function with everything that it needs from its script; "" if it cannot become a skill.
        why_not: Why the function cannot become a skill without changes; "" if it can.
    """

    file: str
    name: str
    node: _Function
    code: str
    why_not: str = ""

    @property
    def about(self) -> str:
        """The first paragraph of the function's docstring, in one line."""
        return " ".join((ast.get_docstring(self.node) or "").partition("\n\n")[0].split())


def script_functions(files: Files) -> list[ScriptFunction]:
    """Return the public top-level functions of all Python files except tests, sorted by file and line."""
    sources = {path: (text, tree) for path, text, tree in python_sources(files) if not is_test(path)}
    modules = {_module(path) for path in sources}
    modules |= {part for path in sources for part in path.split("/")[:-1]}
    return [each for path in sorted(sources) for each in _functions(path, *sources[path], modules - {_module(path)})]


def find_function(functions: Sequence[ScriptFunction], wanted: str) -> ScriptFunction:
    """Find a function by name or, if several files have a function of this name, by ``FILE:FUNCTION``.

    Raises:
        LookupError: No function or more than one has this name, or the function cannot become a skill.
    """
    file, _, name = wanted.rpartition(":")
    found = [each for each in functions if each.name == name and file in ("", each.file)]
    if not found:
        known = ", ".join(each.name for each in functions if each.code)
        raise LookupError(
            f"There is no function `{wanted[:80]}` here. Functions that could become skills: {known or 'none'}."
        )
    if len(found) > 1:
        places = " or ".join(f"{each.file}:{each.name}" for each in found)
        raise LookupError(f"More than one file has a function `{name}`: choose one by writing {places}.")
    if not found[0].code:
        raise LookupError(f"{name} cannot become a skill: {found[0].why_not}.")
    return found[0]


def _module(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".py")


def _functions(path: str, text: str, tree: ast.Module, modules: set[str]) -> Iterator[ScriptFunction]:
    own = [node for node in tree.body if isinstance(node, _Function) and not node.name.startswith("_")]
    for node in {each.name: each for each in own}.values():  # a later definition replaces an earlier one
        if node.name in _PROGRAMS:
            continue
        code = source_of(text, tree, node.name)
        hard = _why_never(node, code, modules)
        soft = "" if (ast.get_docstring(node) or "").strip() else "it has no docstring"
        yield ScriptFunction(path, node.name, node, "" if hard else code, hard or soft)


def _why_never(node: _Function, code: str, modules: set[str]) -> str:
    taken = node.args
    if not PATTERN.fullmatch(snake_case(node.name)):
        return "its name cannot be the name of a tool"
    if taken.posonlyargs or taken.vararg or taken.kwarg:
        return "it takes arguments without names"
    if not taken.args and not taken.kwonlyargs:
        return "it takes no arguments"
    for each in ast.walk(parse_source(code)):
        if isinstance(each, ast.ImportFrom) and each.level:
            return "it uses other files of the instructions"
        names = [alias.name for alias in each.names] if isinstance(each, ast.Import) else []
        if isinstance(each, ast.ImportFrom) and each.module:
            names = [each.module]
        if any(name.partition(".")[0] in modules for name in names):
            return "it uses other files of the instructions"
    return ""
