"""Recognizes command-line programs among proposals, and suggests the function to write instead (SKILL-2).

A tool is called with named JSON values, so a skill is a function with typed parameters. A function derived from a
program could only take a list of strings, and its schema would not help an agent to call it. So the author is told
which signature fits the program.
"""

import ast
import keyword
from collections.abc import Iterator, Sequence

_FLAGS = {"store_true": ("bool", "False"), "store_false": ("bool", "True"), "count": ("int", "0")}
_NOT_STORED = frozenset(("help", "version"))
_MODULES = frozenset(("argparse", "click", "fire", "getopt", "optparse", "typer"))
_MANY = frozenset(("*", "+"))


def command_line_advice(name: str, nodes: Sequence[ast.AST]) -> str:
    """Return what to change in a command-line program without a function `name`; "" if the code is not such a program.

    Args:
        nodes: All nodes of the syntax tree.
    """
    guarded = any(_is_guard(node) for node in nodes)
    if not (guarded or any(map(_reads_arguments, nodes))):
        return ""
    outside = "" if guarded else " No other code may run when the file is imported."
    signature = f"def {name}({', '.join(_parameters(nodes))}):"
    return (
        f"The code is a command-line program without a function `{name}`, and a tool is called with named values. Add "
        f"`{signature}` with a docstring. Return the result instead of printing it, and raise an exception instead of "
        f'exiting. Call the function under `if __name__ == "__main__":`.{outside} Let the tests call `{name}(...)`, '
        "not the program."
    )


def _is_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(node.test))


def _reads_arguments(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="sys"), attr="argv"):
            return True
        case ast.ImportFrom(module=str(module)):
            return module in _MODULES
        case ast.Import(names=names):
            return any(each.name in _MODULES for each in names)
    return False


def _parameters(nodes: Sequence[ast.AST]) -> list[str]:
    """Return parameters for the arguments that the program declares. Those without a default come first."""
    found: dict[str, tuple[str, str]] = {}
    for node in sorted((n for n in nodes if isinstance(n, ast.Call)), key=lambda call: (call.lineno, call.col_offset)):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            for name, hint, default in _parameter(node):
                found.setdefault(name, (hint, default))
    texts = [f"{name}: {hint}{default and f' = {default}'}" for name, (hint, default) in found.items()]
    return sorted(texts, key=lambda text: " = " in text) or ["arguments: list[str]"]


def _parameter(call: ast.Call) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the type hint and the default that a call of `add_argument` states."""
    options = {each.arg: each.value for each in call.keywords}
    names = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    chosen = _text(options.get("dest")) or next((each for each in names if each.startswith("--")), "".join(names[:1]))
    name, action = chosen.lstrip("-").replace("-", "_"), _text(options.get("action"))
    if not name.isidentifier() or keyword.iskeyword(name) or action in _NOT_STORED:
        return
    if action in _FLAGS:
        yield name, *_FLAGS[action]
        return
    kind = options.get("type")
    hint = kind.id if isinstance(kind, ast.Name) and kind.id in ("int", "float") else "str"
    optional = names[0].startswith("-") and not _is_true(options.get("required"))
    if _text(options.get("nargs")) in _MANY or action == "append":
        hint = f"list[{hint}]"
    default = options.get("default")
    if isinstance(default, ast.Constant):
        yield name, hint if default.value is not None else f"{hint} | None", repr(default.value)
    elif optional or _text(options.get("nargs")) == "?":
        yield name, f"{hint} | None", "None"
    else:
        yield name, hint, ""


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True
