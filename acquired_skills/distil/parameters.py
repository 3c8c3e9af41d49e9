"""Chooses which literals of a program become parameters of a skill.

A literal becomes a parameter if it differs in a program of the same shape that succeeded in another run, or if it
occurs in the request. The choice is a proposal: the author may change the code before it is admitted.
"""

import ast
import keyword
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from acquired_skills.distil.literals import ProgramLiteral, Value, arguments_of_tools, literals_of

MOST_PARAMETERS = 8
_SHORTEST = 2  # characters of a text that is looked for in a request
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]*\d)")
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]*")
_INDEXES = (0, 1)  # numbers that most programs contain for other reasons


@dataclass(frozen=True, slots=True)
class ChosenParameter:
    """A literal, or several equal ones, that become a parameter.

    Attributes:
        name: The name of the parameter.
        value: The value of the literal in the program.
        places: The lines and columns of the literals.
        why: Why it was chosen, for people.
        dropped: The variable whose assignment the parameter replaces; "" if there is none.
        number: The position of the first literal in the program.
    """

    name: str
    value: Value
    places: tuple[tuple[int, int], ...]
    why: str
    dropped: str = ""
    number: int = 0

    @property
    def type(self) -> str:
        """The type hint of the parameter."""
        return type(self.value).__name__


def choose_parameters(
    tree: ast.Module, request: str, similar: Sequence[ast.Module], fixed: Collection[tuple[str, str]] = ()
) -> list[ChosenParameter]:
    """Return the parameters, in the order in which their literals occur.

    Args:
        request: What the user asked for.
        similar: Programs of the same shape from other runs.
        fixed: Tools and arguments that select what a tool does, such as the action of `file_system`. Their literals do
            not become parameters.
    """
    given = arguments_of_tools(tree)
    found, others = literals_of(tree), [literals_of(each) for each in similar]
    taken = _names(tree)
    groups: dict[tuple[type, Value, tuple[Value, ...]], list[ProgramLiteral]] = {}
    for each in found:
        if given.get(each.place) in fixed:
            continue
        varied = tuple(other[each.number].value for other in others if each.number < len(other))
        groups.setdefault((type(each.value), each.value, varied), []).append(each)
    chosen: list[ChosenParameter] = []
    for (_, value, varied), literals in groups.items():
        different = [each for each in varied if each != value]
        why = f"it was {different[0]!r} in another run" if different else _why_in_request(literals, request)
        if not why or len(chosen) == MOST_PARAMETERS:
            continue
        assigned = next((each for each in literals if each.assigned), None)
        dropped = assigned.hint if assigned is not None and _stores(tree, assigned.hint) == 1 else ""
        name = dropped or _free_name(literals, taken, {each.name for each in chosen})
        places = tuple(each.place for each in literals)
        chosen.append(ChosenParameter(name, value, places, why, dropped, literals[0].number))
    return chosen


def _why_in_request(literals: Sequence[ProgramLiteral], request: str) -> str:
    value = literals[0].value
    if isinstance(value, str):
        text = value.strip()
        here = len(text) >= _SHORTEST and re.search(rf"(?<!\w){re.escape(text)}(?!\w)", request, re.IGNORECASE)
        return "the request contains it" if here else ""
    if value in _INDEXES and not any(each.hint for each in literals):
        return ""
    numbers = {float(each) for each in _NUMBER.findall(request)}
    return "the request contains it" if float(value) in numbers else ""


def _free_name(literals: Sequence[ProgramLiteral], taken: Collection[str], chosen: Collection[str]) -> str:
    """Return a name that neither the program nor another parameter has."""
    hints = [each.hint.lower() for each in literals if _IDENTIFIER.fullmatch(each.hint.lower())]
    plain = "text" if isinstance(literals[0].value, str) else "number"
    name = next((each for each in hints if not keyword.iskeyword(each)), plain)
    name = f"given_{name}" if name in taken else name
    number, free = 2, name
    while free in taken or free in chosen:
        free, number = f"{name}_{number}", number + 1
    return free


def _names(tree: ast.Module) -> set[str]:
    """Return all names that the program uses, which a parameter must not hide."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.alias():
                found.add((node.asname or node.name).partition(".")[0])
    return found


def _stores(tree: ast.Module, name: str) -> int:
    return sum(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store) for node in ast.walk(tree)
    )
