"""Turns the examples in a skill's docstring into tests (SKILL-19).

An example states a result in the syntax of doctest::

    >>> roman_numeral(4)
    'IV'

The author of the skill wrote these results, so an example counts like any other test. Examples are read as text and run
only in boxes.
"""

import ast
import builtins
import doctest
import sys
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from acquired_skills.model.parsed import ParsedProposal, ParsedSource
from acquired_skills.proof.clock_calls import reads_clock

MOST_EXAMPLES = 20
MOST_CHARS = 500  # maximum number of characters of one example
EXAMPLE_PREFIX = "test_docstring_example"
_WRAPPERS = frozenset(("sorted", "list", "tuple", "set", "dict", "round", "print", "str", "repr"))
_ANY = frozenset(("Exception", "BaseException"))
_VARYING = frozenset(("random", "secrets", "uuid", "time"))  # modules whose results vary, so no example can state them
_OUTSIDE = frozenset(("open", "Path", "read_text", "read_bytes", "write_text", "listdir", "print", "input"))
_WRITTEN = ("datetime.", "Decimal(", "Fraction(", "UUID(")  # values that are compared by their `repr`
_SKIPPED = (doctest.SKIP, doctest.ELLIPSIS)


def with_docstring_examples(parsed: ParsedProposal) -> ParsedProposal:
    """Return the proposal with its docstring's examples added to its tests.

    Examples that may fail for reasons other than a wrong result are left out. If the code uses files, connects to
    destinations, calls tools, reads the clock, depends on chance or prints output, no example is used. Examples that
    use names from the code, other than the name of the skill, are also left out.
    """
    name = parsed.proposal.name
    if (
        reads_clock(parsed.code)
        or parsed.block.destinations
        or parsed.block.tools
        or parsed.code.imports & _VARYING
        or _names(parsed.code.nodes) & _OUTSIDE
    ):
        return parsed
    available = sys.stdlib_module_names | parsed.code.imports
    cases = list(_cases(name, _docstring(parsed.code.tree, name), available))
    free = EXAMPLE_PREFIX
    while free in parsed.tests.text:
        free += "_"
    added = "".join(f"\n\ndef {free}_{number}():\n{body}" for number, body in enumerate(cases, 1))
    if not added:
        return parsed
    tests = ParsedSource.parse(f"{parsed.tests.text.rstrip()}\n{added}")
    return replace(parsed, proposal=replace(parsed.proposal, tests=tests.text), tests=tests)


def _docstring(tree: ast.Module, name: str) -> str:
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    return (ast.get_docstring(found[-1]) or "") if found else ""


def _cases(name: str, docstring: str, available: AbstractSet[str]) -> Iterator[str]:
    """Yield the body of a test for each example that states a result of the skill.

    Args:
        available: The modules that an example may import.
    """
    try:
        examples = doctest.DocTestParser().get_examples(docstring)
    except ValueError:  # for example, inconsistent indentation
        return
    setup: list[str] = []
    for example in examples[:MOST_EXAMPLES]:
        if len(example.source) + len(example.want) > MOST_CHARS or any(map(example.options.get, _SKIPPED)):
            continue
        try:
            (statement,) = ast.parse(example.source).body
        except (SyntaxError, ValueError):
            continue
        if isinstance(statement, ast.Import | ast.ImportFrom):
            setup += _imports(statement, name, available)
        elif isinstance(statement, ast.Assign):
            setup.append(example.source)
        elif isinstance(statement, ast.Expr) and _is_result(statement.value, name):
            check = _check(ast.unparse(statement.value), statement.value, example)
            if check and not _unbound([*setup, example.source], name):
                lines = [f"from {name} import {name}", *setup, *check]
                yield "".join(f"    {line}\n" for text in lines for line in text.splitlines())


def _imports(node: ast.Import | ast.ImportFrom, name: str, available: AbstractSet[str]) -> Iterator[str]:
    """Yield an import of an example, without the names that cannot be imported in the box.

    An example often imports the function from the package in which it was published. Here that function is the skill,
    and the package may not be installed.
    """
    if isinstance(node, ast.ImportFrom):
        left = [each for each in node.names if (each.asname or each.name) != name]
        if left and not node.level and (node.module or "").partition(".")[0] in available:
            yield ast.unparse(ast.ImportFrom(node.module, left, 0))
    else:
        left = [each for each in node.names if each.name.partition(".")[0] in available]
        if left:
            yield ast.unparse(ast.Import(left))


def _is_result(node: ast.expr, name: str) -> bool:
    """Return whether an expression is a call of the skill, possibly inside conversions such as `sorted(...)`."""
    match node:
        case ast.Call(func=ast.Name(id=called)) if called == name:
            return all(inner is node or not _calls(inner, name) for inner in ast.walk(node))
        case ast.Call(func=ast.Name(id=wrapper), args=[first, *_]) if wrapper in _WRAPPERS:
            return _is_result(first, name)
    return False


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _check(source: str, node: ast.expr, example: doctest.Example) -> Sequence[str]:
    """Return the lines of code that check the result of an example; empty if the result cannot be checked."""
    if example.exc_msg is not None:
        raised = example.exc_msg.partition(":")[0].strip()
        kind = getattr(builtins, raised, None)
        known = isinstance(kind, type) and issubclass(kind, Exception) and raised not in _ANY
        return ["import pytest", f"with pytest.raises({raised}):", f"    {source}"] if known else ()
    want = example.want.strip()
    if not want or "..." in want:
        return ()
    match node:
        case ast.Call(func=ast.Name(id="print"), args=[printed], keywords=[]):
            return [f"assert str({ast.unparse(printed)}) == {want!r}"]
    try:
        expected = ast.literal_eval(want)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return [f"assert repr({source}) == {want!r}"] if want.startswith(_WRITTEN) else ()
    if expected is None:
        return ()
    return [f"assert {source} == {want}"] if "\n" not in want else [f"assert {source} == {expected!r}"]


def _unbound(sources: Sequence[str], name: str) -> bool:
    """Return whether the lines of an example use a name that neither they nor Python define."""
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    names = [node for node in nodes if isinstance(node, ast.Name)]
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)} | {name, *vars(builtins)}
    bound |= {(each.asname or each.name).partition(".")[0]
              for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for each in node.names}  # fmt: skip
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    return any(node.id not in bound for node in names)


def _names(nodes: Sequence[ast.AST]) -> frozenset[str]:
    found = {node.id for node in nodes if isinstance(node, ast.Name)}
    return frozenset(found | {node.attr for node in nodes if isinstance(node, ast.Attribute)})
