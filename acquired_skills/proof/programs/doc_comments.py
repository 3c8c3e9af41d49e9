"""Reads the schema of a Node or Bash skill from its documentation comment, without running the program.

The syntax is that of JSDoc, for example::

    @param {string} text - What to change.
    @param {number} [width=80] - Characters of a line; optional.
    @param {object} [options]
    @param {boolean} [options.hyphens=false] - Whether words may be divided.
    @returns {string}
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from acquired_skills.proof.programs.type_expressions import NAMES, UnknownType, schema_of

_TAG = re.compile(r"^@(\w+)\s*", re.MULTILINE)
_NAME = re.compile(
    r"`?\[?\s*(?P<name>[A-Za-z_$][\w$.]*)`?\s*(?:=(?P<default>[^\]]*))?(?P<end>\]?)\s*(?:-\s*)?(?P<text>.*)", re.DOTALL
)
_PARAM = ("param", "arg", "argument")
_RETURNS = ("returns", "return")
MOST_PARAMETERS = 30


@dataclass(frozen=True, slots=True)
class UndescribedFunction:
    """A function without a comment that describes it.

    Attributes:
        parameters: The names of its parameters, "" for one without a name.
        tag: The name to write after `@function`, if the comment cannot stand above the function; "" if it can.
    """

    parameters: tuple[str, ...]
    tag: str = ""


@dataclass(frozen=True, slots=True)
class ProgramInterface:
    """The interface of a program, according to its documentation comment.

    Attributes:
        parameters: JSON Schema of the arguments. The properties are in the order of the parameters.
        returns: JSON Schema of the result; None if the comment does not state one.
        problems: What to change in the comment.
        undescribed: The function, if there is one and no comment describes it properly.
    """

    parameters: Mapping[str, Any]
    returns: Mapping[str, Any] | None = None
    problems: tuple[str, ...] = field(default=())
    undescribed: UndescribedFunction | None = None

    @property
    def names(self) -> list[str]:
        """The names of the parameters, in order."""
        return list(self.parameters["properties"])


def read_interface(comment: str) -> ProgramInterface:
    """Parse the text of a documentation comment, without its comment markers."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    returns: Mapping[str, Any] | None = None
    problems: list[str] = []
    for tag, text in _tags(comment):
        try:
            kind, rest = _type(text)
            if tag in _RETURNS:
                returns = schema_of(kind) if kind else None
            elif tag in _PARAM:
                _parameter(kind, rest, properties, required)
        except UnknownType as error:
            unknown = " ".join(str(error).split())[:80]
            problems.append(f"The type `{unknown}` of `@{tag}` is unknown. Use one of these: {NAMES}.")
        except ValueError as error:
            problems.append(f"`@{tag} {' '.join(text.split())[:80]}`: {error}")
    if len(properties) > MOST_PARAMETERS:
        problems.append(f"There are {len(properties)} parameters: describe at most {MOST_PARAMETERS}.")
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return ProgramInterface(parameters, returns, tuple(problems))


def _tags(comment: str) -> Iterator[tuple[str, str]]:
    found = list(_TAG.finditer(comment))
    for number, match in enumerate(found):
        end = found[number + 1].start() if number + 1 < len(found) else len(comment)
        yield match[1], comment[match.end() : end].strip()


def _type(text: str) -> tuple[str, str]:
    """Split a text into the type in braces and the rest."""
    if not text.startswith("{"):
        return "", text
    depth = 0
    for at, sign in enumerate(text):
        depth += (sign == "{") - (sign == "}")
        if not depth:
            return text[1:at], text[at + 1 :].strip()
    raise ValueError("its type has no closing `}`. Add it.")


def _parameter(kind: str, text: str, properties: dict[str, Any], required: list[str]) -> None:
    match = _NAME.match(text)
    optional = kind.endswith("=") or text.startswith("[")
    if match is None or (text.startswith("[") and not match["end"]):
        raise ValueError("write `@param {type} name - what it is`, or `[name=default]` if it is optional.")
    if not kind:
        raise ValueError("it has no type. Write `@param {type} name - what it is`.")
    path, _, name = match["name"].rpartition(".")
    for part in filter(None, path.split(".")):
        parent = properties.get(part, {})
        if parent.get("type") != "object":
            raise ValueError(f"describe `{path}` in a line above it, with the type `object`.")
        properties, required = parent.setdefault("properties", {}), parent.setdefault("required", [])
    if name in properties:
        raise ValueError(f"`{name}` is described twice. Remove one of the lines.")
    schema = schema_of(kind.removesuffix("="))
    if described := " ".join(match["text"].split()):
        schema["description"] = described
    if match["default"] is not None:
        schema["default"] = _value(match["default"].strip())
    if not optional:
        required.append(name)
    properties[name] = schema


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.strip("'")


def stripped(lines: Sequence[str], sign: str) -> str:
    """Return the lines of a comment without the comment marker `sign` at the beginning of each."""
    return "\n".join(line.strip().removeprefix(sign).removeprefix(" ") for line in lines)
