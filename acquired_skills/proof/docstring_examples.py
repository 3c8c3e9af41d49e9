"""Turns the examples in a skill's docstring into tests (SKILL-19).

An example states a result in the syntax of doctest::

    >>> roman_numeral(4)
    'IV'

The author of the skill wrote these results, so an example counts like any other test. Examples are read as text and run
only in boxes. An example may call the skill by another name (`acquired_skills.proof.example_calls`), and may be in any
docstring of the code. Examples that call only methods or helpers are left out, since tests are judged without the code.
"""

import ast
import builtins
import doctest
import re
import sys
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import chain, islice

from acquired_skills.model.parsed import ParsedProposal, ParsedSource
from acquired_skills.proof.clock_calls import reads_clock
from acquired_skills.proof.example_calls import ExampleCalls

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
    use names from the code, other than those of the skill and of classes, are also left out.
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
    calls = ExampleCalls.of(name, parsed.code.tree)
    if calls is None:
        return parsed
    available = sys.stdlib_module_names | parsed.code.imports
    found = chain.from_iterable(_cases(calls.copy(), each, available) for each in _docstrings(parsed.code.tree))
    cases = list(islice(found, MOST_EXAMPLES))
    free = EXAMPLE_PREFIX
    while free in parsed.tests.text:
        free += "_"
    begin = "async def" if calls.awaited else "def"
    added = "".join(f"\n\n{begin} {free}_{number}():\n{body}" for number, body in enumerate(cases, 1))
    if not added:
        return parsed
    tests = ParsedSource.parse(f"{parsed.tests.text.rstrip()}\n{added}")
    return replace(parsed, proposal=replace(parsed.proposal, tests=tests.text), tests=tests)


def _docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield the docstrings of the functions, classes and methods of a module, and its own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            yield ast.get_docstring(node) or ""


def _cases(calls: ExampleCalls, docstring: str, available: AbstractSet[str]) -> Iterator[str]:
    """Yield the body of a test for each example that states a result of the skill.

    Args:
        calls: Recognizes the calls of the skill.
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
            setup += calls.imports(statement, available)
            continue
        statement = calls.direct(statement)
        if isinstance(statement, ast.Assign):
            setup.append(ast.unparse(statement))
        elif isinstance(statement, ast.Expr) and _is_result(statement.value, calls):
            source = ast.unparse(statement.value)
            check = _check(source, statement.value, example)
            if check and not _unbound([*setup, source], calls):
                used = [each for each in calls.classes if re.search(rf"\b{each}\b", "\n".join([*setup, source]))]
                lines = [f"from {calls.name} import {', '.join([calls.name, *used])}", *setup, *check]
                yield "".join(f"    {line}\n" for text in lines for line in text.splitlines())


def _is_result(node: ast.expr, calls: ExampleCalls) -> bool:
    """Return whether an expression is a call of the skill, or a field or a conversion of its result."""
    match node:
        case ast.Await(value=inner) if calls.awaited:
            return calls.is_call(inner) and _has_one_call(inner, calls)
        case ast.Call() if calls.is_call(node):
            return not calls.awaited and _has_one_call(node, calls)
        case ast.Call(func=ast.Name(id=wrapper), args=[first, *_]) if wrapper in _WRAPPERS:
            return _is_result(first, calls)
        case ast.Attribute(value=inner, attr=attr) if not attr.startswith("_"):
            return _is_result(inner, calls)
    return False


def _has_one_call(node: ast.expr, calls: ExampleCalls) -> bool:
    return sum(map(calls.is_call, ast.walk(node))) == 1


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


def _unbound(sources: Sequence[str], calls: ExampleCalls) -> bool:
    """Return whether the lines of an example use a name that neither they nor Python define."""
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    names = [node for node in nodes if isinstance(node, ast.Name)]
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    bound |= {calls.name, *calls.classes, *vars(builtins)}
    bound |= {(each.asname or each.name).partition(".")[0]
              for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for each in node.names}  # fmt: skip
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    return any(node.id not in bound for node in names)


def _names(nodes: Sequence[ast.AST]) -> frozenset[str]:
    found = {node.id for node in nodes if isinstance(node, ast.Name)}
    return frozenset(found | {node.attr for node in nodes if isinstance(node, ast.Attribute)})
