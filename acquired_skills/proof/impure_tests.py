"""Finds tests that change the environment of the skill, so that their calls cannot be replayed elsewhere (SKILL-7).

They are found in the syntax tree. Such tests are allowed and must pass in the rehearsal, but do not count as proof.
"""

import ast

from acquired_skills.model.parsed import ParsedSource

_FIXTURES = frozenset(("caplog", "capfd", "capfdbinary", "capsysbinary", "mocker", "pytester", "recwarn", "testdir"))
_NAMES = frozenset(("mock", "Mock", "MagicMock", "patch", "environ", "putenv", "warns", "chmod"))


def impure_tests(source: ParsedSource) -> frozenset[str]:
    """Return the names of the impure functions of a test module, including those that use an impure function."""
    functions = {node.name: node for node in source.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    used = {name: _used(node) for name, node in functions.items()}
    found = {name for name, names in used.items() if names & (_FIXTURES | _NAMES)}
    while more := {name for name, names in used.items() if name not in found and names & found}:
        found |= more
    return frozenset(found)


def test_function(test: str) -> str:
    """Return the function name in a test's id."""
    return test.rpartition("::")[2].partition("[")[0]


def _used(function: ast.AST) -> set[str]:
    moves = [
        node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and node.attr == "chdir" and isinstance(node.value, ast.Name)
    ]
    names: set[str] = set()
    for node in ast.walk(function):
        match node:
            case ast.Name(id=name) if node not in moves:  # `chdir` is allowed: calls record it
                names.add("patch" if name == "monkeypatch" else name)
            case ast.arg(arg=name) if name != "monkeypatch":
                names.add(name)
            case ast.Attribute(attr=name):
                names.add(name)
    return names
