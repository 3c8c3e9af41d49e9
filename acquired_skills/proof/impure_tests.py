"""Which tests change the world around the skill, so that their calls cannot be made anew elsewhere (SKILL-7).

They are read in the syntax tree. Such a test may be there, and has to pass in the rehearsal; it proves nothing.
"""

import ast

from acquired_skills.model.parsing import parse_source

_FIXTURES = frozenset(("caplog", "capfd", "capfdbinary", "capsysbinary", "mocker", "pytester", "recwarn", "testdir"))
_NAMES = frozenset(("mock", "Mock", "MagicMock", "patch", "environ", "putenv", "warns", "chmod"))


def reaching(source: str) -> frozenset[str]:
    """Names of the functions of a test module that do, by themselves or by what they use of it."""
    tree = parse_source(source)
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    used = {name: _used(node) for name, node in functions.items()}
    found = {name for name, names in used.items() if names & (_FIXTURES | _NAMES)}
    while more := {name for name, names in used.items() if name not in found and names & found}:
        found |= more
    return frozenset(found)


def function_of(test: str) -> str:
    """Of a test's id."""
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
            case ast.Name(id=name) if node not in moves:  # where a call is made goes with it
                names.add("patch" if name == "monkeypatch" else name)
            case ast.arg(arg=name) if name != "monkeypatch":
                names.add(name)
            case ast.Attribute(attr=name):
                names.add(name)
    return names
